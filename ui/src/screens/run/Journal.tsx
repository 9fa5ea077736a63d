// Everything that happened to the run, event by event.
import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { useLoad } from "../../api/load.ts";
import { Foreign, Loading } from "../../kit/basics.tsx";
import { Json } from "../../kit/Json.tsx";
import { Problem } from "../../kit/problem.tsx";
import { clockWithMilliseconds, exactTime, zone } from "../../kit/time.ts";
import { useWindow } from "../../kit/window.ts";
import { change, place } from "../../router.ts";
import { number, words } from "../../words/en.ts";
import type { RunEvent } from "./events.ts";
import { saidOf } from "./said.ts";
import type { RunStore } from "./store.ts";

const ROW = 36;

/** The numbers of the events at hand that fit the filter, oldest first. */
function matching(store: RunStore, filter: string): number[] {
  const found: number[] = [];
  for (const event of store.events.all()) {
    const text = `${event.type} ${event.node ?? ""} ${saidOf(event)}`;
    if (text.toLowerCase().includes(filter)) found.push(event.seq);
  }
  return found;
}

export function Journal({ store }: { store: RunStore }) {
  const text = words.run.journal;
  const shown = useComputed(() => {
    const { query } = place.value;
    const filter = (query.get("q") ?? "").trim().toLowerCase();
    const oldest = query.get("order") === "oldest";
    const found = filter && store.events.version.value >= 0 ? matching(store, filter) : undefined;
    const count = found?.length ?? store.events.last.value;
    const numberAt = (index: number) => {
      const spot = oldest ? index : count - 1 - index;
      return found ? (found[spot] ?? 0) : spot + 1;
    };
    return { numberAt, count, filter, oldest };
  });
  const { numberAt, count, filter, oldest } = shown.value;
  const wanted = place.value.query.get("q") ?? "";
  const all = store.events.last.value;
  // A filter looks at every event: they are read page by page.
  useEffect(() => {
    if (filter) store.events.want(1, all);
  }, [filter, all, store.events.error.value]);
  return (
    <>
      <div class="bar">
        <label class="grow">
          <span class="hidden">{text.filter}</span>
          <input
            type="search"
            placeholder={text.filterHint}
            value={wanted}
            onInput={(event) => change({ q: event.currentTarget.value }, true)}
          />
        </label>
        <button type="button" onClick={() => change({ order: oldest ? undefined : "oldest" })}>
          {oldest ? text.oldest : text.newest}
        </button>
        <span class="soft number">{text.count(count, all)}</span>
      </div>
      {store.events.error.value !== undefined && (
        <Problem error={store.events.error.value} onRetry={() => store.events.retry()} />
      )}
      {count === 0 ? (
        <p class="nothing soft">{text.empty}</p>
      ) : (
        <Events store={store} count={count} numberAt={numberAt} />
      )}
    </>
  );
}

function Events({ store, count, numberAt }: { store: RunStore; count: number; numberAt: (index: number) => number }) {
  const list = useRef<HTMLOListElement>(null);
  const seen = useWindow(list, count, ROW, ROW);
  const open = useSignal<ReadonlySet<number>>(new Set());
  const { from, to } = seen.value;
  const [first, end] = [numberAt(from), numberAt(Math.max(from, to - 1))];
  useEffect(
    () => store.events.want(Math.min(first, end), Math.max(first, end)),
    [first, end, store.events.error.value],
  );
  // An address that names an event leads to it.
  const named = Number(place.value.query.get("event") ?? 0);
  useEffect(() => {
    if (!named || !count || named > store.events.last.peek()) return;
    open.value = new Set([...open.peek(), named]);
    const row = Math.abs(named - numberAt(0));
    const top = (list.current?.getBoundingClientRect().top ?? 0) + scrollY;
    scrollTo(0, Math.max(0, top + row * ROW - innerHeight / 3));
  }, [named, count > 0]);
  const toggle = (seq: number) => {
    const next = new Set(open.value);
    if (!next.delete(seq)) next.add(seq);
    open.value = next;
  };
  const rows: number[] = [];
  for (let index = from; index < to; index++) rows.push(numberAt(index));
  const version = store.events.version.value;
  return (
    <ol class="events" ref={list} aria-label={words.run.journal.label} data-version={version}>
      <li class="gap" aria-hidden="true" style={{ height: `${from * ROW}px` }} />
      {rows.map((seq) => {
        const event = store.events.get(seq);
        if (!event) return <li key={seq} class="event skeleton" aria-busy="true" />;
        return <Row key={seq} store={store} event={event} open={open.value.has(seq)} onToggle={() => toggle(seq)} />;
      })}
      <li class="gap" aria-hidden="true" style={{ height: `${(count - to) * ROW}px` }} />
    </ol>
  );
}

interface RowGiven {
  store: RunStore;
  event: RunEvent;
  open: boolean;
  onToggle: () => void;
}

function Row({ store, event, open, onToggle }: RowGiven) {
  const text = words.run.journal;
  const at = store.at.value;
  return (
    <li
      class={at !== undefined && event.seq > at ? "event later" : "event"}
      aria-current={at === event.seq || undefined}
    >
      <div class="event-line">
        <button
          type="button"
          class="seq number"
          aria-expanded={open}
          aria-label={text.open(event.seq)}
          onClick={onToggle}
        >
          {number(event.seq)}
        </button>
        <time
          class="number soft"
          dateTime={new Date(event.at * 1000).toISOString()}
          title={exactTime(event.at, zone.value)}
        >
          {clockWithMilliseconds(event.at, zone.value)}
        </time>
        <code class="type" data-type={event.type.slice(event.type.indexOf(".") + 1)}>
          {event.type}
        </code>
        {event.node ? (
          <button type="button" class="quiet node" onClick={() => change({ node: event.node })}>
            <Foreign text={event.node} />
          </button>
        ) : (
          <span />
        )}
        <span class="soft event-said">
          <Foreign text={saidOf(event)} />
        </span>
      </div>
      {open && <Content store={store} event={event} />}
    </li>
  );
}

/** Everything that an event holds, and the way to the run as it was right after it. */
function Content({ store, event }: { store: RunStore; event: RunEvent }) {
  const text = words.run.journal;
  const omitted = event.omitted !== undefined;
  const loaded = useLoad(String(event.seq), async (signal) =>
    omitted ? ((await store.events.whole(event.seq, signal)) ?? event) : event,
  );
  const whole = loaded.data.value;
  return (
    <div class="event-data">
      <p class="event-ways">
        <button type="button" onClick={() => change({ at: String(event.seq), tab: undefined })}>
          {text.lookHere}
        </button>
        {event.cause && (
          <span class="soft">
            {text.cause}{" "}
            {/^\d{1,15}$/.test(event.cause) ? (
              <button
                type="button"
                class="quiet"
                onClick={() => change({ event: event.cause ?? undefined, q: undefined })}
              >
                {text.causeEvent(Number(event.cause))}
              </button>
            ) : (
              <Foreign text={event.cause} />
            )}
          </span>
        )}
      </p>
      {loaded.error.value !== undefined ? (
        <Problem error={loaded.error.value} onRetry={loaded.reload} />
      ) : whole ? (
        <Json value={whole.data} />
      ) : (
        <Loading rows={1} />
      )}
    </div>
  );
}
