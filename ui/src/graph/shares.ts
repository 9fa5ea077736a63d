// How far a box is that stands for many: the items of a map, or the nodes of a stack.
import { groupOf } from "../kit/states.ts";
import type { NodeView } from "../screens/run/store.ts";
import { type Box, itemsOf, type Rect } from "./model.ts";
import type { Palette } from "./palette.ts";

export interface Share {
  readonly group: string;
  readonly count: number;
}

const ORDER = ["good", "undone", "stopped", "bad", "busy", "waits"];

export function sharesOf(box: Box, nodes: ReadonlyMap<string, NodeView>): readonly Share[] {
  const counts = new Map<string, number>();
  const add = (group: string, count: number) => counts.set(group, (counts.get(group) ?? 0) + count);
  if (box.members.length) for (const member of box.members) add(groupOf(nodes.get(member)?.state ?? ""), 1);
  else {
    const { completed, failed, open, all } = itemsOf(nodes.get(box.id));
    add("good", completed);
    add("bad", failed);
    add("busy", open);
    add("none", all - completed - failed - open);
  }
  return [...ORDER, "none"]
    .map((group) => ({ group, count: counts.get(group) ?? 0 }))
    .filter((share) => share.count > 0);
}

/** A bar along the lower edge of a box: a piece for each state, as long as its share. */
export function drawShares(pen: CanvasRenderingContext2D, at: Rect, shares: readonly Share[], palette: Palette): void {
  const all = shares.reduce((sum, share) => sum + share.count, 0);
  if (!all) return;
  pen.save();
  pen.beginPath();
  pen.roundRect(at.x + 10, at.y + at.height - 7, at.width - 20, 4, 2);
  pen.clip();
  let left = at.x + 10;
  for (const { group, count } of shares) {
    const wide = ((at.width - 20) * count) / all;
    pen.fillStyle = group === "none" ? palette.line : palette.states[group]!.border;
    pen.fillRect(left, at.y + at.height - 7, wide, 4);
    left += wide;
  }
  pen.restore();
}
