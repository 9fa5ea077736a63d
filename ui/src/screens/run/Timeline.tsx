// What each node did when: lanes on a canvas, and the same as a table.
import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { now } from "../../api/call.ts";
import { axisOf, type Bar, type Chart, chartOf, criticalPath } from "../../film/gantt.ts";
import { LANE, TimelineView } from "../../film/timeline.ts";
import { Foreign, Loading, StateMark } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { ticks } from "../../kit/ticks.ts";
import { clock, clockWithMilliseconds, shownDuration, zone } from "../../kit/time.ts";
import { change, place } from "../../router.ts";
import { theme } from "../../shell/theme.ts";
import { words } from "../../words/en.ts";
import { said } from "../../words/journal.ts";
import type { RunStore } from "./store.ts";

const ROWS = 500;
const NEAREST = 0.0005;

export default function Timeline({ store, node }: { store: RunStore; node: string }) {
  const text = words.run.timeline;
  const opened = useSignal<ReadonlySet<string>>(new Set());
  const collapse = useSignal(true);
  const critical = useSignal(false);
  const view = useSignal<readonly [number, number]>([0, 1]);
  const table = place.value.query.get("as") === "table";
  const chart = useComputed(() =>
    store.film.version.value ? chartOf(store.film.film, opened.value) : { lanes: [], bars: [], start: 0, end: 0 },
  );
  const path = useComputed(() =>
    critical.value && store.film.version.value ? criticalPath(store.film.film) : undefined,
  );
  const { error, version } = store.film;
  if (!version.value && error.value !== undefined)
    return <Problem error={error.value} onRetry={() => void store.film.read()} />;
  if (!version.value) return <Loading rows={4} />;
  if (!chart.value.lanes.length) return <p class="nothing soft">{text.empty}</p>;
  return (
    <>
      <div class="bar">
        <label class="check">
          <input type="checkbox" checked={collapse.value} onChange={() => (collapse.value = !collapse.value)} />
          {text.collapse}
        </label>
        <label class="check">
          <input type="checkbox" checked={critical.value} onChange={() => (critical.value = !critical.value)} />
          {text.critical}
        </label>
        <button type="button" disabled={view.value[1] - view.value[0] >= 1} onClick={() => (view.value = [0, 1])}>
          {text.all}
        </button>
        <button type="button" aria-pressed={table} onClick={() => change({ as: table ? undefined : "table" })}>
          {text.table}
        </button>
      </div>
      {table ? (
        <Table chart={chart.value} />
      ) : (
        <Lanes
          store={store}
          node={node}
          chart={chart.value}
          collapse={collapse.value}
          critical={path.value}
          view={view.value}
          onView={(next) => (view.value = next)}
          opened={opened.value}
          onOpen={(name) => {
            const next = new Set(opened.value);
            if (!next.delete(name)) next.add(name);
            opened.value = next;
          }}
        />
      )}
    </>
  );
}

interface Given {
  store: RunStore;
  node: string;
  chart: Chart;
  collapse: boolean;
  critical: ReadonlySet<string> | undefined;
  view: readonly [number, number];
  onView: (view: readonly [number, number]) => void;
  opened: ReadonlySet<string>;
  onOpen: (name: string) => void;
}

function Lanes({ store, node, chart, collapse, critical, view, onView, opened, onOpen }: Given) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const drawn = useRef<TimelineView>(null);
  const state = useRef({ chart, opened, onOpen, onView });
  state.current = { chart, opened, onOpen, onView };
  const goesOn = chart.bars.some((bar) => bar.to === undefined);
  const moment = goesOn ? ticks.value && now() * 1000 : chart.end;
  useEffect(() => {
    const element = canvas.current!;
    const made = new TimelineView(element);
    drawn.current = made;
    const sizes = new ResizeObserver(() => made.resize());
    sizes.observe(element);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const recolour = () => made.recolour();
    dark.addEventListener("change", recolour);
    const letGo = listen(element, made, {
      lane: (index, name) => {
        const lane = state.current.chart.lanes[index];
        if (!lane) return;
        if (name && lane.parts && !lane.part) state.current.onOpen(lane.node);
        else change({ node: lane.node });
      },
      zoom: (from, to) => {
        if (to - from > NEAREST) state.current.onView([from, to]);
      },
    });
    return () => {
      sizes.disconnect();
      dark.removeEventListener("change", recolour);
      letGo();
      made.stop();
    };
  }, []);
  useEffect(() => drawn.current?.recolour(), [theme.value]);
  const axis = axisOf(chart, moment, collapse);
  const at = store.at.value;
  const seen = at === undefined ? undefined : store.film.film.timeAt(at);
  useEffect(() => {
    drawn.current?.show({
      chart,
      axis,
      now: moment,
      view,
      critical,
      chosen: node,
      at: seen === undefined ? undefined : seen * 1000,
      opened,
      label: words.run.timeline.lane,
      time: (one, whole) => (whole ? clock : clockWithMilliseconds)(one / 1000, zone.peek()),
    });
  });
  return (
    <div
      class="timeline"
      onScroll={(event) => drawn.current?.scroll(event.currentTarget.scrollTop)}
      tabIndex={0}
      role="group"
      aria-label={words.run.timeline.label}
    >
      <canvas
        ref={canvas}
        role="img"
        aria-label={words.run.timeline.described}
        data-lanes={chart.lanes.length}
        data-bars={chart.bars.length}
      />
      <div aria-hidden="true" style={{ height: `${chart.lanes.length * LANE}px` }} />
    </div>
  );
}

interface Heard {
  lane: (index: number, name: boolean) => void;
  zoom: (from: number, to: number) => void;
}

/** A click chooses the node; a drag over the bars is what is looked at from then on. */
function listen(element: HTMLCanvasElement, view: TimelineView, heard: Heard): () => void {
  let from: number | undefined;
  const down = (event: PointerEvent) => {
    if (event.button !== 0 || event.pointerType === "touch") return;
    from = event.offsetX;
    element.setPointerCapture(event.pointerId);
  };
  const move = (event: PointerEvent) => {
    if (from === undefined || view.isName(from)) return;
    view.brush = [from, event.offsetX];
    view.redraw();
  };
  const up = (event: PointerEvent) => {
    const begun = from ?? event.offsetX;
    from = undefined;
    view.brush = undefined;
    view.redraw();
    if (Math.abs(event.offsetX - begun) > 6 && !view.isName(begun)) {
      const [one, two] = [view.spotAt(begun), view.spotAt(event.offsetX)];
      heard.zoom(Math.min(one, two), Math.max(one, two));
      return;
    }
    const lane = view.laneAt(event.offsetY);
    if (lane !== undefined) heard.lane(lane, view.isName(event.offsetX));
  };
  element.addEventListener("pointerdown", down);
  element.addEventListener("pointermove", move);
  element.addEventListener("pointerup", up);
  return () => {
    element.removeEventListener("pointerdown", down);
    element.removeEventListener("pointermove", move);
    element.removeEventListener("pointerup", up);
  };
}

function Table({ chart }: { chart: Chart }) {
  const text = words.run.timeline;
  const { columns } = text;
  return (
    <>
      <div class="scroller" role="group" aria-label={text.table} tabIndex={0}>
        <table class="plain-table">
          <thead>
            <tr>
              <th scope="col">{columns.node}</th>
              <th scope="col">{columns.doing}</th>
              <th scope="col">{columns.from}</th>
              <th scope="col">{columns.duration}</th>
              <th scope="col">{columns.ended}</th>
            </tr>
          </thead>
          <tbody>
            {chart.bars.slice(0, ROWS).map((bar, index) => (
              <BarRow key={index} chart={chart} bar={bar} />
            ))}
          </tbody>
        </table>
      </div>
      {chart.bars.length > ROWS && <p class="soft">{text.more(chart.bars.length - ROWS)}</p>}
    </>
  );
}

function BarRow({ chart, bar }: { chart: Chart; bar: Bar }) {
  const lane = chart.lanes[bar.lane]!;
  return (
    <tr>
      <td>
        <button type="button" class="quiet" onClick={() => change({ node: lane.node })}>
          <Foreign text={words.run.timeline.lane(lane)} />
        </button>
        {bar.attempt > 1 && <span class="soft">{said.attempt(bar.attempt)}</span>}
      </td>
      <td>{words.states[bar.doing] ?? bar.doing}</td>
      <td class="number">{clockWithMilliseconds(bar.from / 1000, zone.value)}</td>
      <td class="number">
        {bar.to === undefined ? words.run.timeline.goesOn : shownDuration((bar.to - bar.from) / 1000)}
      </td>
      <td>{bar.ended && <StateMark state={bar.ended} small />}</td>
    </tr>
  );
}
