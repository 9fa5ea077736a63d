// What a box stands for, beside it: shown where the pointer rests, and where the focus is in the outline.
import { now } from "../api/call.ts";
import { Duration, Foreign, StateMark } from "../kit/basics.tsx";
import { cut } from "../kit/text.ts";
import { localTimes, zone } from "../kit/time.ts";
import type { NodeView } from "../screens/run/store.ts";
import { words } from "../words/en.ts";
import type { Box, Rect } from "./model.ts";

const WIDE = 280;
const GAP = 12;

interface Given {
  box: Box;
  /** Where the box is in the picture, and how large the picture is. */
  at: Rect;
  room: { readonly width: number; readonly height: number };
  nodes: ReadonlyMap<string, NodeView>;
  why: string | undefined;
}

export function HoverCard({ box, at, room, nodes, why }: Given) {
  const text = words.run.graph;
  const node = box.members.length ? undefined : nodes.get(box.id);
  const error = node?.error as { code?: string; message?: string } | undefined;
  return (
    <div class="hover-card" role="tooltip" style={placeOf(at, room)}>
      <strong>
        {box.members.length ? text.stack(box.members.length) : <Foreign text={box.id} />} <code>{box.type}</code>
      </strong>
      {node && (
        <span class="hover-state">
          <StateMark state={node.state} />
          {node.started_at !== undefined && (
            <span class="soft">
              <Duration from={node.started_at} to={node.ended_at} />
            </span>
          )}
        </span>
      )}
      {[box.detail, ...box.notes].filter(Boolean).map((line) => (
        <Foreign key={line} text={cut(line, 200)} className="soft" />
      ))}
      {error?.code ? (
        <Foreign text={cut([error.code, error.message].filter(Boolean).join(": "), 200)} className="bad" />
      ) : (
        why && <Foreign text={cut(localTimes(why, zone.value, now()), 240)} />
      )}
    </div>
  );
}

/** Beside the box where there is room, else below it or above. */
export function placeOf(at: Rect, room: { readonly width: number; readonly height: number }): Record<string, string> {
  const top = Math.max(8, Math.min(at.y, room.height - 140));
  if (at.x + at.width + GAP + WIDE <= room.width) return { left: `${at.x + at.width + GAP}px`, top: `${top}px` };
  if (at.x - GAP - WIDE >= 0) return { left: `${at.x - GAP - WIDE}px`, top: `${top}px` };
  const left = `${Math.max(8, Math.min(at.x, room.width - WIDE - 8))}px`;
  const below = at.y + at.height + GAP;
  return below + 120 <= room.height ? { left, top: `${below}px` } : { left, bottom: `${room.height - at.y + GAP}px` };
}
