// The graph of a definition: without states, or with a mark for each node that differs; its nodes beside it as a list.
import { useSignal } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import type { NodeView } from "../film/film.ts";
import { Canvas } from "./Canvas.tsx";
import { type Graph, neighbours, toDrawing } from "./drawing.ts";
import { Outline } from "./Outline.tsx";
import type { GraphView } from "./view.ts";

interface Given {
  graph: Graph;
  label: string;
  chosen?: string;
  onChoose?: (id: string) => void;
  /** What is said of nodes, as a state: `added`, `removed`, `changed`. */
  marks?: ReadonlyMap<string, string>;
  /** Without the list of nodes. */
  alone?: boolean;
  onKey?: (event: KeyboardEvent, id: string) => void;
}

const NONE: ReadonlyMap<string, string> = new Map();

export function Plan({ graph, label, chosen = "", onChoose, marks = NONE, alone: only = false, onKey }: Given) {
  const alone = only || matchMedia("(max-width: 639px)").matches;
  const drawing = useMemo(() => toDrawing(graph), [graph]);
  const { onward, back } = useMemo(() => neighbours(graph), [graph]);
  const ids = useMemo(() => graph.nodes.map((one) => one.id), [graph]);
  const nodes = useMemo(
    () => new Map([...marks].map(([id, state]) => [id, { state, visit: 0, attempt: 0 } as unknown as NodeView])),
    [marks],
  );
  const view = useRef<GraphView>(null);
  const focused = useSignal("");
  const choose = (id: string) => onChoose?.(id);
  return (
    <div class={alone ? "graph-body plan alone" : "graph-body plan"}>
      {!alone && (
        <Outline
          ids={ids}
          nodes={nodes}
          chosen={chosen}
          onward={onward}
          back={back}
          plain
          onFocus={(id) => {
            focused.value = id;
          }}
          onOpen={choose}
          onKey={onKey}
        />
      )}
      <div class="plane">
        <Canvas
          drawing={drawing}
          nodes={nodes}
          chosen={chosen || focused.value}
          onChoose={choose}
          view={view}
          label={label}
        />
      </div>
    </div>
  );
}
