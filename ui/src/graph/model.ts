// The drawing of a graph as data: boxes and lines with the places that the server gave them, found by where they are.
import type { Fate, Fates } from "../film/film.ts";
import type { NodeView } from "../screens/run/store.ts";

export interface Rect {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export interface Box {
  readonly id: string;
  readonly type: string;
  readonly detail: string;
  readonly notes: readonly string[];
  readonly place: Rect;
  /** The nodes that a closed stack stands for; empty for a node. */
  readonly members: readonly string[];
}

export interface Wire {
  readonly from: string;
  readonly to: string;
  readonly kind: string;
  readonly label: string | null;
  readonly label_place: Rect | null;
  readonly line: { readonly start: readonly number[]; readonly curves: readonly (readonly (readonly number[])[])[] };
}

export interface Drawing {
  readonly width: number;
  readonly height: number;
  readonly boxes: readonly Box[];
  readonly wires: readonly Wire[];
}

/** States in which nothing of a node is left to be seen to. */
export const DONE: ReadonlySet<string> = new Set(["completed", "skipped", "compensated"]);

const ENDED = new Set(["completed", "failed", "skipped", "cancelled", "upstream_failed", "compensated"]);

/** Whether a run went along a wire: the node before it says where it went on. */
export function fateOf(wire: Wire, nodes: ReadonlyMap<string, NodeView>): Fate {
  const source = nodes.get(wire.from);
  const target = nodes.get(wire.to);
  if (wire.kind === "back" && (target?.visit ?? 0) > 1) return "taken"; // the loop went round
  if (!source || !ENDED.has(source.state)) return "open";
  if (source.state === "failed") return wire.kind === "failure" && target && target.visit > 0 ? "taken" : "skipped";
  if (source.state !== "completed" && source.state !== "compensated") return "skipped";
  const taken = source.route?.taken;
  if (Array.isArray(taken)) return taken.includes(wire.to) ? "taken" : "skipped";
  if (wire.kind === "failure" || wire.kind === "back") return "skipped";
  return target?.state === "skipped" ? "skipped" : "taken";
}

/** Pairs of nodes that are looked at to say what became of a wire of a stack. */
const MOST_PAIRS = 400;

/** What became of a wire that a stack begins or ends: the run went along it if it went between any two of the nodes. */
export function fateAmong(sources: readonly string[], targets: readonly string[], of: Fates): Fate {
  let seen = 0;
  let open = false;
  for (const source of sources)
    for (const target of targets) {
      if (++seen > MOST_PAIRS) return "open";
      const fate = of(source, target);
      if (fate === "taken") return fate;
      open ||= fate === "open";
    }
  return open ? "open" : "skipped";
}

/** What became of a wire, by what is known of its edge or else by the nodes; `membersOf` a stack are its nodes. */
export function fateIn(
  wire: Wire,
  membersOf: (id: string) => readonly string[],
  nodes: ReadonlyMap<string, NodeView>,
  fates: Fates | undefined,
): Fate {
  const between = (from: string, to: string): Fate => {
    if (fates) return fates(from, to);
    return nodes.size ? fateOf({ ...wire, from, to }, nodes) : "open";
  };
  const [sources, targets] = [membersOf(wire.from), membersOf(wire.to)];
  if (!sources.length && !targets.length) return between(wire.from, wire.to);
  return fateAmong(sources.length ? sources : [wire.from], targets.length ? targets : [wire.to], between);
}

/** How many items a map has: those that were begun, or all where it says how many there are. */
export function itemsOf(node: NodeView | undefined): Readonly<Record<"completed" | "failed" | "open" | "all", number>> {
  const { completed = 0, failed = 0, open = 0 } = (node?.items ?? {}) as Readonly<Record<string, number>>;
  const { kind, count } = (node?.waiting_for ?? {}) as { readonly kind?: string; readonly count?: number };
  return { completed, failed, open, all: Math.max(completed + failed + open, (kind === "items" && count) || 0) };
}

/** What stands in each square of the plane: what is in view, or under the pointer, is found without looking at everything. */
export class Grid<T> {
  readonly #size: number;
  readonly #cells = new Map<number, T[]>();

  constructor(size: number) {
    this.#size = size;
  }

  static #key(column: number, row: number): number {
    return column * 65_536 + row;
  }

  add(thing: T, at: Rect): void {
    this.#each(at, (key) => {
      const cell = this.#cells.get(key);
      if (cell) cell.push(thing);
      else this.#cells.set(key, [thing]);
    });
  }

  find(at: Rect): Set<T> {
    const found = new Set<T>();
    this.#each(at, (key) => {
      for (const thing of this.#cells.get(key) ?? []) found.add(thing);
    });
    return found;
  }

  #each(at: Rect, visit: (key: number) => void): void {
    const size = this.#size;
    const lastColumn = Math.floor((at.x + at.width) / size);
    const lastRow = Math.floor((at.y + at.height) / size);
    for (let column = Math.max(-1, Math.floor(at.x / size)); column <= lastColumn; column++)
      for (let row = Math.max(-1, Math.floor(at.y / size)); row <= lastRow; row++)
        visit(Grid.#key(column + 1, row + 1));
  }
}

export function boundsOf(wire: Wire): Rect {
  let [left = 0, top = 0] = wire.line.start;
  let right = left;
  let bottom = top;
  for (const curve of wire.line.curves) {
    for (const [x = 0, y = 0] of curve) {
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
    }
  }
  return { x: left, y: top, width: right - left, height: bottom - top };
}

export const contains = (at: Rect, x: number, y: number): boolean =>
  x >= at.x && x <= at.x + at.width && y >= at.y && y <= at.y + at.height;
