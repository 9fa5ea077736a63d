// The graph of the run, with its outline beside it.
import { useComputed, useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { call, Refused } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Canvas } from "../../graph/Canvas.tsx";
import { suiting } from "../../graph/direction.ts";
import { type Graph, neighbours, toDrawing } from "../../graph/drawing.ts";
import { HoverCard } from "../../graph/HoverCard.tsx";
import { DONE } from "../../graph/model.ts";
import { Outline } from "../../graph/Outline.tsx";
import type { GraphView } from "../../graph/view.ts";
import { Loading } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { change, place } from "../../router.ts";
import { onKeys } from "../../shell/keys.ts";
import { words } from "../../words/en.ts";
import { GraphTools } from "./GraphTools.tsx";
import { hasEnded, type RunStore } from "./store.ts";

export function GraphTab({ store, node }: { store: RunStore; node: string }) {
  const text = words.run.graph;
  const { query } = place.value;
  const direction = query.get("direction") as Graph["direction"] | null;
  const open = query.getAll("open");
  const patches = store.run.value?.patches ?? 0;
  const at = store.at.value;
  // A run follows one definition from one patch to the next: the picture is another only behind one.
  const since =
    at !== undefined && patches && store.film.version.value ? store.film.phases.definitionAt(at) : undefined;
  const whole = useRef<HTMLDivElement>(null);
  const loaded = useLoad(`${store.runId} ${direction} ${open.join(",")} ${patches} ${since}`, (signal) => {
    const read = (wanted: Graph["direction"] | undefined) =>
      call("GET /api/v1/runs/{run_id}/graph", {
        path: { run_id: store.runId },
        query: { direction: wanted, open: open.length ? open : undefined, at: since },
        signal,
      });
    const { clientWidth: width = 0, clientHeight: height = 0 } = whole.current?.querySelector(".plane") ?? {};
    return direction ? read(direction) : suiting(read, { width, height });
  });
  const graph = loaded.data.value;
  const isRead = graph !== undefined || loaded.error.value !== undefined;
  useEffect(() => {
    if (isRead) store.pictured();
  }, [isRead]);
  useEffect(() => () => store.pictured(), []);
  const drawing = useMemo(() => (graph ? toDrawing(graph) : undefined), [graph]);
  const fates = useComputed(() => (store.at.value === undefined ? undefined : store.film.fatesAt(store.at.value)));
  const { onward, back } = useMemo(() => neighbours(graph), [graph]);
  const ids = useMemo(
    () => graph?.nodes.map((one) => one.id) ?? [...store.nodes.value.keys()],
    [graph, graph ? 0 : store.nodes.value.size],
  );
  const view = useRef<GraphView>(null);
  const focused = useSignal("");
  const hidden = useSignal(matchMedia("(max-width: 639px)").matches);
  const sparse = query.get("hide") === "completed";
  const listed = useMemo(
    () => (sparse ? ids.filter((id) => !DONE.has(store.shown.value.get(id)?.state ?? "")) : ids),
    [sparse, ids, sparse && store.shown.value],
  );
  const pointed = useSignal<string | undefined>(undefined);
  const following = useSignal(false);
  const active = following.value ? firstActive(store) : undefined;
  useEffect(() => {
    if (active !== undefined) view.current?.reveal(active);
  }, [active, drawing]);
  const isDrawn = drawing !== undefined;
  useEffect(() => {
    const made = view.current;
    // On a phone a whole graph is rarely read: it begins where the run is.
    if (!made || made.room.width > NARROW || made.isReadable || node) return;
    const begin = firstActive(store) ?? ids[0];
    if (begin !== undefined && ids.length <= MOST_READ) made.reveal(begin);
  }, [isDrawn]);
  const isKnown = drawing !== undefined && store.nodes.value.size >= ids.length;
  useEffect(() => {
    const made = view.current;
    if (!made || !isKnown || made.isMoved || node || drawing.boxes.length <= MOST_WHOLE) return;
    const begin = firstActive(store);
    if (begin !== undefined) made.reveal(begin);
  }, [isKnown]);
  const find = useRef<HTMLInputElement>(null);
  useLayoutEffect(
    () =>
      onKeys({
        "/": () => find.current?.focus(),
        "+": () => view.current?.zoom(1.25),
        "-": () => view.current?.zoom(0.8),
        "0": () => view.current?.fit(),
        o: () => {
          hidden.value = !hidden.value;
        },
      }),
    [],
  );
  useEffect(() => {
    const leave = (event: KeyboardEvent) => {
      if (event.key === "Escape") pointed.value = undefined;
    };
    addEventListener("keydown", leave); // beside what else Escape closes
    return () => removeEventListener("keydown", leave);
  }, []);
  const choose = (id: string) => {
    const stack = graph?.stacks.find((one) => one.id === id);
    if (stack) change({ open: [...open, id] });
    else change({ node: id });
  };
  const seek = (wanted: string) => {
    const lower = wanted.trim().toLowerCase();
    const found = lower && ids.find((id) => id.toLowerCase().includes(lower));
    find.current?.setCustomValidity(lower && !found ? text.none : "");
    find.current?.reportValidity();
    if (found) {
      focused.value = found;
      view.current?.reveal(found);
    }
  };
  return (
    <div class="graph" ref={whole}>
      <div class={hidden.value ? "graph-body alone" : "graph-body"}>
        <label class="graph-find">
          <span class="hidden">{text.find}</span>
          <input
            ref={find}
            type="search"
            placeholder={text.find}
            onInput={(event) => seek(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && focused.value) choose(focused.value);
            }}
          />
        </label>
        {!hidden.value && (
          <Outline
            ids={listed}
            nodes={store.shown.value}
            chosen={node}
            onward={onward}
            back={back}
            onFocus={(id) => {
              focused.value = id;
              pointed.value = id || undefined;
            }}
            onBlur={() => (pointed.value = undefined)}
            onOpen={choose}
          />
        )}
        <div class="plane">
          {drawing ? (
            <Canvas
              drawing={drawing}
              nodes={store.shown.value}
              fates={fates.value}
              chosen={node || focused.value}
              onChoose={choose}
              view={view}
              sparse={sparse}
              lively={store.at.value === undefined}
              onRest={(id) => (pointed.value = id)}
            />
          ) : loaded.error.value === undefined ? (
            <Loading rows={6} />
          ) : loaded.error.value instanceof Refused && loaded.error.value.problem.status === 404 ? (
            <p class="nothing soft">{text.unavailable}</p>
          ) : (
            <Problem error={loaded.error.value} onRetry={loaded.reload} />
          )}
          {sparse && drawing && listed.length === 0 && <p class="nothing soft all-hidden">{text.allHidden}</p>}
          <Card store={store} view={view} id={pointed.value} />
          <GraphTools
            runId={store.runId}
            view={view}
            direction={graph?.direction ?? "right"}
            outline={!hidden.value}
            sparse={sparse}
            following={following.value}
            onFollow={hasEnded(store.run.value!) ? undefined : () => (following.value = !following.value)}
            onOutline={() => (hidden.value = !hidden.value)}
            onWhole={() =>
              void (document.fullscreenElement ? document.exitFullscreen() : whole.current?.requestFullscreen())
            }
          />
        </div>
      </div>
    </div>
  );
}

const NARROW = 520;
/** Larger graphs are looked at as a whole first, on a phone too. */
const MOST_READ = 200;
/** Of a larger one nothing is read as a whole: it begins at what is active or failed. */
const MOST_WHOLE = 3000;
const ACTIVE = ["running", "queued", "retrying", "waiting", "parked", "failed"];

/** The node that the run is at: what is executed before what waits. */
function firstActive(store: RunStore): string | undefined {
  let best = ACTIVE.length;
  let found: string | undefined;
  for (const [id, node] of store.shown.value) {
    const rank = ACTIVE.indexOf(node.state);
    if (rank >= 0 && rank < best) [best, found] = [rank, id];
  }
  return found;
}

/** What stands beside the box that the pointer rests on. */
function Card({ store, view, id }: { store: RunStore; view: RefObject<GraphView | null>; id: string | undefined }) {
  const found = id === undefined ? undefined : view.current?.whereabouts(id);
  if (!found || !view.current) return null;
  const why = store.at.value === undefined ? store.why.value.get(found.box.id) : undefined;
  return <HoverCard box={found.box} at={found.at} room={view.current.room} nodes={store.shown.value} why={why} />;
}
