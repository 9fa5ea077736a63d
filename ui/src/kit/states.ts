// The groups that states are coloured by, as in the drawings of the server; and the mark of each group, for who sees no colours.

export type Group = "good" | "busy" | "waits" | "bad" | "stopped" | "undone" | "none";

const GROUPS: Readonly<Record<string, Group>> = {
  completed: "good",
  running: "busy",
  queued: "busy",
  waiting: "waits",
  retrying: "waits",
  held: "waits",
  paused: "waits",
  parked: "bad",
  compensated: "undone",
  compensating: "undone",
  rolled_back: "undone",
  added: "good",
  removed: "bad",
  changed: "waits",
  failed: "bad",
  failing: "bad",
  crashed: "bad",
  quarantined: "bad",
  cancelled: "stopped",
  cancelling: "stopped",
  handed_back: "stopped",
  // What a guard decides about a call.
  allow: "good",
  ask: "waits",
  deny: "bad",
  invalid: "bad",
};

export const groupOf = (state: string): Group => GROUPS[state] ?? "none";

/** Paths in a field of 16 by 16, drawn as lines. */
export const MARKS: Readonly<Record<Group, string>> = {
  good: "M3.500 8.500l3 3 6-7",
  busy: "M5 3.500l7 4.500-7 4.500z",
  waits: "M8 4v4.500l3 1.500M8 2a6 6 0 1 0 0 12A6 6 0 1 0 8 2",
  bad: "M4 4l8 8M12 4l-8 8",
  stopped: "M4 4h8v8H4z",
  undone: "M6 3.500L2.500 7 6 10.500M3 7h6.500a3.250 3.250 0 0 1 0 6.500H7",
  none: "M4 8h8",
};
