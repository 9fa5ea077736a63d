// Which hint of the first minute is shown.
export interface Seen {
  readonly ended: boolean;
  readonly asked: boolean;
  readonly killed: boolean;
}

/** The hint for what is seen of a run that has reached one before: between two readings nothing may hold, and it never goes back. */
export function stageOf(seen: Seen, reached: number): number {
  const stage = seen.ended ? 4 : seen.asked ? 3 : seen.killed ? 2 : 1;
  return Math.max(stage, reached);
}
