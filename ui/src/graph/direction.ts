// In which direction a graph is shown where nobody has chosen one: the server's, unless it is much better read in the other.
import type { Graph } from "./drawing.ts";

/** What of a graph is read without zooming; from there on it need not be larger. */
const READABLE = 0.8;
const MUCH = 1.15;
/** Drawing a larger one twice would keep people waiting. */
const MOST_NODES = 200;

interface Room {
  readonly width: number;
  readonly height: number;
}

/** How large it is drawn where the whole of it is seen. */
export const scaleIn = (graph: Room, room: Room): number =>
  graph.width && graph.height ? Math.min(room.width / graph.width, room.height / graph.height) : 1;

/** The graph in the direction that suits the room. */
export async function suiting(
  read: (direction: Graph["direction"] | undefined) => Promise<Graph>,
  room: Room,
): Promise<Graph> {
  const graph = await read(undefined);
  const scale = scaleIn(graph, room);
  if (scale >= READABLE || graph.nodes.length > MOST_NODES || !room.width || !room.height) return graph;
  const other = await read(graph.direction === "right" ? "down" : "right");
  return scaleIn(other, room) > scale * MUCH ? other : graph;
}
