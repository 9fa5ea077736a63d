// From what the server laid out to what is drawn.
import type { Schemas } from "../api/call.ts";
import type { Box, Drawing } from "./model.ts";

export type Graph = Schemas["Graph"];

/** Boxes and lines of what the server laid out: nodes with a place, and closed stacks. */
export function toDrawing(graph: Graph): Drawing {
  const boxes: Box[] = [];
  for (const node of graph.nodes) if (node.place) boxes.push({ ...node, place: node.place, members: [] });
  const types = new Map(graph.nodes.map((node) => [node.id, node]));
  for (const stack of graph.stacks) {
    const first = types.get(stack.nodes[0] ?? "");
    if (stack.place && first)
      boxes.push({
        id: stack.id,
        type: first.type,
        detail: first.detail,
        notes: [],
        place: stack.place,
        members: stack.nodes,
      });
  }
  return { width: graph.width, height: graph.height, boxes, wires: graph.edges };
}

function add(found: Map<string, string[]>, name: string, other: string): void {
  const known = found.get(name);
  if (known) known.push(other);
  else found.set(name, [other]);
}

export interface Neighbours {
  readonly onward: Map<string, string[]>;
  readonly back: Map<string, string[]>;
}

export function neighbours(graph: Graph | undefined): Neighbours {
  const onward = new Map<string, string[]>();
  const back = new Map<string, string[]>();
  for (const edge of graph?.edges ?? []) {
    add(onward, edge.from, edge.to);
    add(back, edge.to, edge.from);
  }
  return { onward, back };
}
