// The nodes of the graph as a tree of text: what the keyboard and screen readers use. The box of the chosen node has a ring.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Foreign, StateMark } from "../kit/basics.tsx";
import type { NodeView } from "../screens/run/store.ts";
import { words } from "../words/en.ts";

const ROW = 32;
const BEYOND = 10;

interface Given {
  ids: readonly string[];
  nodes: ReadonlyMap<string, NodeView>;
  chosen: string;
  onFocus: (id: string) => void;
  onBlur?: () => void;
  onOpen: (id: string) => void;
  /** What a node leads to, and what leads to it. */
  onward: ReadonlyMap<string, readonly string[]>;
  back: ReadonlyMap<string, readonly string[]>;
  /** Nodes have no states: only marks are shown. */
  plain?: boolean;
  onKey?: ((event: KeyboardEvent, id: string) => void) | undefined;
}

const PROBLEMS = new Set(["failed", "parked", "held"]);

export function Outline({ ids, nodes, chosen, onFocus, onBlur, onOpen, onward, back, plain = false, onKey }: Given) {
  const list = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(400);
  const at = useSignal(0);
  useEffect(() => {
    const index = ids.indexOf(chosen);
    if (index >= 0) at.value = index;
  }, [chosen, ids]);
  useEffect(() => {
    const element = list.current!;
    const sizes = new ResizeObserver(() => {
      height.value = element.clientHeight;
    });
    sizes.observe(element);
    return () => sizes.disconnect();
  }, []);
  const move = (index: number) => {
    const next = Math.max(0, Math.min(ids.length - 1, index));
    at.value = next;
    const element = list.current!;
    if (next * ROW < element.scrollTop) element.scrollTop = next * ROW;
    if ((next + 1) * ROW > element.scrollTop + element.clientHeight)
      element.scrollTop = (next + 1) * ROW - element.clientHeight;
    onFocus(ids[next] ?? "");
  };
  const press = (event: KeyboardEvent) => {
    const here = ids[at.value] ?? "";
    const index = (id: string | undefined) => (id === undefined ? at.value : ids.indexOf(id));
    const problem = () => {
      for (let step = 1; step <= ids.length; step++) {
        const other = (at.value + step) % ids.length;
        if (PROBLEMS.has(nodes.get(ids[other]!)?.state ?? "")) return other;
      }
      return at.value;
    };
    const wanted: Record<string, () => void> = {
      ArrowDown: () => move(at.value + 1),
      ArrowUp: () => move(at.value - 1),
      ArrowRight: () => move(index(onward.get(here)?.[0])),
      ArrowLeft: () => move(index(back.get(here)?.[0])),
      "]": () => move(index(onward.get(here)?.[0])),
      "[": () => move(index(back.get(here)?.[0])),
      Home: () => move(0),
      End: () => move(ids.length - 1),
      Enter: () => onOpen(here),
      n: () => move(problem()),
    };
    onKey?.(event, here);
    if (event.defaultPrevented) return;
    const action = wanted[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  };
  const from = Math.max(0, Math.floor(top.value / ROW) - BEYOND);
  const to = Math.min(ids.length, Math.ceil((top.value + height.value) / ROW) + BEYOND);
  const active = ids[at.value];
  return (
    <div
      class="outline"
      ref={list}
      role="tree"
      tabIndex={0}
      aria-label={words.run.graph.outline}
      aria-activedescendant={active === undefined || at.value < from || at.value >= to ? undefined : `node-${at.value}`}
      onScroll={(event) => {
        top.value = event.currentTarget.scrollTop;
      }}
      onKeyDown={press}
      onBlur={onBlur}
    >
      <div role="presentation" style={{ height: `${ids.length * ROW}px` }} class="outline-all">
        {ids.slice(from, to).map((id, offset) => {
          const index = from + offset;
          return (
            <div
              key={id}
              id={`node-${index}`}
              role="treeitem"
              aria-level={1}
              aria-posinset={index + 1}
              aria-setsize={ids.length}
              aria-selected={id === chosen}
              class={index === at.value ? "outline-row active" : "outline-row"}
              style={{ top: `${index * ROW}px` }}
              onClick={() => {
                at.value = index;
                onOpen(id);
              }}
            >
              <Foreign text={id} className="outline-id" />
              {(!plain || nodes.has(id)) && <StateMark state={nodes.get(id)?.state ?? "pending"} small />}
            </div>
          );
        })}
      </div>
    </div>
  );
}
