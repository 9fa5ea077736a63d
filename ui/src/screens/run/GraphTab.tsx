// The graph of the run, with its outline beside it.
import { useComputed, useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { addressOf, call, Refused } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Canvas } from "../../graph/Canvas.tsx";
import { type Graph, neighbours, toDrawing } from "../../graph/drawing.ts";
import { Outline } from "../../graph/Outline.tsx";
import type { GraphView } from "../../graph/view.ts";
import { Loading } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { change, place } from "../../router.ts";
import { onKeys } from "../../shell/keys.ts";
import { words } from "../../words/en.ts";
import type { RunStore } from "./store.ts";

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
  const loaded = useLoad(`${store.runId} ${direction} ${open.join(",")} ${patches} ${since}`, (signal) =>
    call("GET /api/v1/runs/{run_id}/graph", {
      path: { run_id: store.runId },
      query: { direction: direction ?? undefined, open: open.length ? open : undefined, at: since },
      signal,
    }),
  );
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
  const find = useRef<HTMLInputElement>(null);
  const whole = useRef<HTMLDivElement>(null);
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
            ids={ids}
            nodes={store.shown.value}
            chosen={node}
            onward={onward}
            back={back}
            onFocus={(id) => {
              focused.value = id;
            }}
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
            />
          ) : loaded.error.value === undefined ? (
            <Loading rows={6} />
          ) : loaded.error.value instanceof Refused && loaded.error.value.problem.status === 404 ? (
            <p class="nothing soft">{text.unavailable}</p>
          ) : (
            <Problem error={loaded.error.value} onRetry={loaded.reload} />
          )}
          <Tools
            store={store}
            view={view}
            direction={graph?.direction ?? "right"}
            outline={!hidden.value}
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

interface ToolsGiven {
  store: RunStore;
  view: RefObject<GraphView | null>;
  direction: Graph["direction"];
  outline: boolean;
  onOutline: () => void;
  onWhole: () => void;
}

/** What moves the picture, over it: the picture has the room. */
function Tools({ store, view, direction, outline, onOutline, onWhole }: ToolsGiven) {
  const text = words.run.graph;
  const other = direction === "right" ? "down" : "right";
  return (
    <div class="graph-tools" role="toolbar" aria-label={text.tools}>
      <div class="group">
        <button type="button" aria-label={text.zoomOut} title={text.zoomOut} onClick={() => view.current?.zoom(0.8)}>
          −
        </button>
        <button type="button" aria-label={text.zoomIn} title={text.zoomIn} onClick={() => view.current?.zoom(1.25)}>
          +
        </button>
        <button type="button" class="wide-only" onClick={() => view.current?.actualSize()}>
          {text.actual}
        </button>
        <button type="button" onClick={() => view.current?.fit()}>
          {text.fit}
        </button>
      </div>
      <button type="button" aria-expanded={outline} onClick={onOutline}>
        {text.outline}
      </button>
      <button type="button" onClick={() => change({ direction: other })}>
        {text.directions[other]}
      </button>
      <a
        class="button wide-only"
        href={addressOf("GET /api/v1/runs/{run_id}/graph.svg", {
          path: { run_id: store.runId },
          query: { direction },
        })}
        download={`${store.runId.replaceAll(/[^A-Za-z0-9._-]/g, "_")}.svg`}
      >
        {text.picture}
      </a>
      {document.fullscreenEnabled && (
        <button type="button" class="wide-only" onClick={onWhole}>
          {text.whole}
        </button>
      )}
    </div>
  );
}
