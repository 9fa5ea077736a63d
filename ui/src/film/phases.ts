// What the whole run was at each of its events, and the events that a reader looks for: from the few events that say so.
import type { Schemas } from "../api/call.ts";

type RunEvent = Schemas["Event"];

const STATES: Readonly<Record<string, string>> = {
  "run.created": "running",
  "run.paused": "paused",
  "run.resumed": "running",
  "run.failing": "failing",
  "run.failed": "failed",
  "run.cancelling": "cancelling",
  "run.cancelled": "cancelled",
  "run.compensating": "compensating",
  "run.rolled_back": "rolled_back",
  "run.completed": "completed",
  "run.retried": "running",
};

const MARKS = {
  "approval.requested": "approval",
  "approval.decided": "approval",
  "run.patched": "patch",
  "run.retried": "retry",
} as const;

export type MarkKind = "failure" | "approval" | "patch" | "retry";

export interface Mark {
  readonly seq: number;
  readonly kind: MarkKind;
}

/** The types of the events that are asked for. */
export const TURNING_POINTS: readonly string[] = [...new Set([...Object.keys(STATES), ...Object.keys(MARKS)])];

export class Phases {
  #changes: { seq: number; state: string }[] = [];
  readonly marks: Mark[] = [];
  /** The events after which the run follows another definition. */
  readonly patches: number[] = [];
  lastSeq = 0;

  /** Take events in order; those that are known are left. */
  add(events: readonly RunEvent[]): void {
    for (const event of events) {
      if (event.seq <= this.lastSeq) continue;
      this.lastSeq = event.seq;
      // One of several pauses is over: the others hold the run.
      const left = event.type === "run.resumed" && Boolean(event.data.left);
      const state = left ? undefined : STATES[event.type];
      if (state) this.#changes.push({ seq: event.seq, state });
      const kind = MARKS[event.type as keyof typeof MARKS];
      if (kind) this.marks.push({ seq: event.seq, kind });
      if (event.type === "run.patched") this.patches.push(event.seq);
    }
  }

  stateAt(seq: number): string {
    return this.#changes.findLast((change) => change.seq <= seq)?.state ?? "running";
  }

  /** The event since which the run followed the definition it had at `seq`; 1: from the beginning. */
  definitionAt(seq: number): number {
    return this.patches.findLast((patch) => patch <= seq) ?? 1;
  }
}
