// What became of the items and moments of a trigger, read from its journal: one line for each fact that a person asks about.
import type { Schemas } from "../../api/call.ts";

export type TriggerEvent = Pick<Schemas["Event"], "seq" | "type" | "at" | "data">;

/** The events that lines are made of. */
export const TYPES = [
  "trigger.received",
  "trigger.started",
  "trigger.ended",
  "trigger.skipped",
  "trigger.parked",
  "trigger.released",
  "trigger.backfilling",
  "trigger.advanced",
  "trigger.registered",
  "run.paused",
  "run.resumed",
] as const;

/** What a run was started for: the moment of a schedule, an item that came, or a person. */
export interface Source {
  readonly id: string;
  readonly moment: number | undefined;
  readonly byHand: boolean;
}

interface Base {
  readonly seq: number;
  readonly at: number;
  readonly isBackfill: boolean;
}

export type Line = Base &
  (
    | {
        readonly kind: "run";
        readonly run: string;
        readonly count: number;
        readonly source: Source | undefined;
        /** How it ended; undefined while it is open. */
        readonly state: string | undefined;
      }
    | {
        readonly kind: "skipped";
        readonly reason: string;
        readonly count: number;
        readonly sources: readonly Source[];
        readonly since: number | undefined;
        readonly until: number | undefined;
      }
    | { readonly kind: "parked"; readonly item: number; readonly code: string; readonly message: string }
    | { readonly kind: "released"; readonly item: number; readonly as: string; readonly by: string }
    | { readonly kind: "backfill"; readonly since: number; readonly until: number; readonly by: string }
    | { readonly kind: "rewound"; readonly by: string; readonly note: string }
    | { readonly kind: "registered"; readonly revision: number; readonly by: string }
    | { readonly kind: "paused" | "resumed"; readonly by: string; readonly reason: string }
  );

interface Item {
  number: number;
  id: string;
  nominal?: number;
  by_hand?: boolean;
}

const text = (value: unknown): string => (typeof value === "string" ? value : "");
const list = <T>(value: unknown): readonly T[] => (Array.isArray(value) ? (value as T[]) : []);
const optional = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);

/** The lines of these events, newest first. Events may begin anywhere: what came in before them is not known then. */
export function linesOf(events: readonly TriggerEvent[]): Line[] {
  const items = new Map<number, Source>();
  const ended = new Map<string, string>();
  const ordered = [...events].sort((one, other) => one.seq - other.seq);
  for (const { type, data } of ordered) {
    const given = (data ?? {}) as Record<string, unknown>;
    if (type === "trigger.received")
      for (const one of list<Item>(given.items))
        items.set(one.number, { id: text(one.id), moment: optional(one.nominal), byHand: one.by_hand === true });
    if (type === "trigger.ended")
      for (const one of list<{ run_id: string; state: string }>(given.ends)) ended.set(one.run_id, text(one.state));
  }
  return ordered.flatMap((event) => lineOf(event, items, ended)).reverse();
}

function lineOf(
  { seq, at, type, data }: TriggerEvent,
  items: ReadonlyMap<number, Source>,
  ended: ReadonlyMap<string, string>,
): Line[] {
  const given = (data ?? {}) as Record<string, unknown>;
  const base = { seq, at, isBackfill: (optional(given.lane) ?? 0) > 0 };
  const by = text(given.by);
  switch (type) {
    case "trigger.started":
      return list<{ numbers: number[]; run_id: string }>(given.starts).map((one) => ({
        ...base,
        kind: "run" as const,
        run: text(one.run_id),
        count: one.numbers.length,
        source: items.get(one.numbers[0] ?? 0),
        state: ended.get(one.run_id),
      }));
    case "trigger.skipped": {
      const numbers = list<number>(given.numbers);
      const sources = numbers.map((one) => items.get(one)).filter((one) => one !== undefined);
      const count = numbers.length + (optional(given.count) ?? 0);
      const { since, until } = given;
      const reason = text(given.reason);
      return [{ ...base, kind: "skipped", reason, count, sources, since: optional(since), until: optional(until) }];
    }
    case "trigger.parked": {
      const error = (given.error ?? {}) as Record<string, unknown>;
      const item = optional(given.number) ?? 0;
      return [{ ...base, kind: "parked", item, code: text(error.code), message: text(error.message) }];
    }
    case "trigger.released":
      return [{ ...base, kind: "released", item: optional(given.number) ?? 0, as: text(given.as) || "again", by }];
    case "trigger.backfilling":
      return [{ ...base, kind: "backfill", since: Number(given.since), until: Number(given.until), by }];
    case "trigger.advanced":
      return given.reason === "rewound" ? [{ ...base, kind: "rewound", by, note: text(given.note) }] : [];
    case "trigger.registered":
      return [{ ...base, kind: "registered", revision: optional(given.revision) ?? 1, by }];
    case "run.paused":
      return [{ ...base, kind: "paused", by, reason: text(given.reason) }];
    case "run.resumed":
      return [{ ...base, kind: "resumed", by, reason: "" }];
    default:
      return [];
  }
}
