// The slider through the events of a run: what happened when, and the run as it was at any of them.
import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { Icon } from "../kit/basics.tsx";
import { clockWithMilliseconds, zone } from "../kit/time.ts";
import type { RunStore } from "../screens/run/store.ts";
import { onKeys } from "../shell/keys.ts";
import { words } from "../words/en.ts";
import { look } from "./look.ts";
import { Player } from "./player.ts";

const BUCKETS = 120;
const PLAY = "M5 3.500l7 4.500-7 4.500z";
const STOP = "M5 3.500v9M11 3.500v9";
const BACK = "M10 3.500L5.500 8l4.500 4.500";
const ON = "M6 3.500L10.500 8 6 12.500";

export function Slider({ store }: { store: RunStore }) {
  const text = words.run.film;
  const last = store.events.last.value;
  const at = store.at.value;
  const here = at ?? last;
  const input = useRef<HTMLInputElement>(null);
  const player = useRef<Player>(null);
  player.current ??= new Player(store);
  const { playing, speed } = player.current;
  useEffect(() => () => player.current?.stop(), []);
  const step = (seq: number) => {
    player.current?.stop();
    look(seq >= store.events.last.peek() ? undefined : Math.max(1, seq));
  };
  useLayoutEffect(() => {
    const now = () => store.at.peek() ?? store.events.last.peek();
    return onKeys({
      "[": () => step(now() - 1),
      "]": () => step(now() + 1),
      "{": () => step(store.film.film.previousStep(now())),
      "}": () => step(store.film.film.nextStep(now())),
      l: () => step(store.events.last.peek()),
    });
  }, [store]);
  if (last === 0) return null;
  const said = text.event(here, last, timeOf(store, here));
  return (
    <div class="film" data-past={at !== undefined}>
      <div class="film-buttons">
        <button
          type="button"
          aria-label={playing.value ? text.stop : text.play}
          title={playing.value ? text.stop : text.play}
          onClick={() => player.current?.toggle()}
        >
          <Icon path={playing.value ? STOP : PLAY} />
        </button>
        <button
          type="button"
          aria-label={text.back}
          title={text.back}
          disabled={here <= 1}
          onClick={() => step(here - 1)}
        >
          <Icon path={BACK} />
        </button>
        <button
          type="button"
          aria-label={text.on}
          title={text.on}
          disabled={at === undefined}
          onClick={() => step(here + 1)}
        >
          <Icon path={ON} />
        </button>
      </div>
      <div class="film-track">
        <Density store={store} />
        <input
          ref={input}
          type="range"
          min={1}
          max={last}
          value={here}
          aria-label={text.slider}
          aria-valuetext={said}
          onInput={(event) => step(Number(event.currentTarget.value))}
          onKeyDown={(event) => {
            if (event.key !== " ") return;
            event.preventDefault();
            player.current?.toggle();
          }}
        />
      </div>
      <span class="film-said number">{said}</span>
      <select
        aria-label={text.speed}
        title={text.speed}
        value={String(speed.value)}
        onChange={(event) => {
          speed.value = Number(event.currentTarget.value);
        }}
      >
        {[1, 10, 100].map((one) => (
          <option key={one} value={String(one)}>
            {text.times(one)}
          </option>
        ))}
      </select>
      <button type="button" disabled={at === undefined} onClick={() => step(last)}>
        {text.live}
      </button>
    </div>
  );
}

/** When an event was: exactly where it was read, else by the change before it. */
function timeOf(store: RunStore, seq: number): string {
  const known = store.events.version.value >= 0 ? store.events.get(seq)?.at : undefined;
  const at = known ?? (store.film.version.value ? store.film.film.timeAt(seq) : undefined);
  return at === undefined ? "" : clockWithMilliseconds(at, zone.value);
}

function Density({ store }: { store: RunStore }) {
  const shown = useComputed(() => {
    if (!store.film.version.value) return { bars: [] as number[], marks: [] };
    const bars = store.film.film.density(Math.min(BUCKETS, store.film.film.lastSeq));
    const most = Math.max(1, ...bars);
    return { bars: bars.map((count) => (count ? 3 + (13 * count) / most : 0)), marks: store.film.marks() };
  });
  const last = useSignal(1);
  last.value = Math.max(2, store.events.last.value);
  const { bars, marks } = shown.value;
  const width = 1000 / Math.max(1, bars.length);
  return (
    <svg class="density" viewBox="0 0 1000 24" preserveAspectRatio="none" aria-hidden="true" focusable="false">
      {bars.map((height, index) =>
        height ? (
          <rect key={index} x={index * width + 1} y={18 - height} width={Math.max(1, width - 2)} height={height} />
        ) : null,
      )}
      {marks.map((mark) => (
        <rect
          key={`${mark.seq} ${mark.kind}`}
          class={`film-mark ${mark.kind}`}
          x={((mark.seq - 1) / (last.value - 1)) * 996}
          y={19}
          width={4}
          height={5}
        />
      ))}
    </svg>
  );
}
