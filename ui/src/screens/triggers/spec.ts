// A trigger in the words of the screens: what it is registered with, when it is due, and why something cannot be asked of it.
import type { Schemas } from "../../api/call.ts";
import { shownDuration } from "../../kit/time.ts";
import { words } from "../../words/triggers.ts";
import type { Verify } from "./sending.ts";

export type Trigger = Schemas["Trigger"];
export type Overlap = "skip" | "buffer_one" | "buffer" | "cancel" | "terminate" | "allow";

export interface Spec {
  readonly description: string;
  readonly source: {
    readonly kind: string;
    readonly cron?: readonly string[];
    readonly every?: number;
    readonly at?: readonly string[];
    readonly timezone?: string;
    readonly verify?: Verify;
    readonly id?: string;
  };
  readonly catchup: { readonly mode: string; readonly within: number };
  readonly overlap: Overlap;
  readonly inputs: unknown;
  readonly key: string;
  readonly limits: {
    readonly open: number;
    readonly buffer: number;
    readonly rate: { readonly limit: number; readonly per: number } | null;
  };
}

export const specOf = (trigger: Trigger): Spec => trigger.spec as Spec;
export const zoneOf = (trigger: Trigger): string => specOf(trigger).source.timezone ?? "UTC";

/** Kinds whose source is read from a cursor on. */
const READ: readonly string[] = ["table", "folder", "stream", "poll"];

/** `900 s` is `15 min`: durations that people wrote are whole. */
export function wholeDuration(seconds: number): string {
  if (seconds >= 86_400 && seconds % 86_400 === 0) return `${seconds / 86_400} d`;
  if (seconds >= 3600 && seconds % 3600 === 0) return `${seconds / 3600} h`;
  if (seconds >= 60 && seconds % 60 === 0) return `${seconds / 60} min`;
  return Number.isInteger(seconds) ? `${seconds} s` : shownDuration(seconds);
}

/** When it is due, as it was written: the lines of cron, an interval, or so many times. */
export function whenOf(trigger: Trigger): string {
  const { source } = specOf(trigger);
  if (trigger.kind !== "schedule") return source.every ? words.every(wholeDuration(source.every)) : "";
  if (source.cron?.length) return source.cron.join(" · ");
  return source.every ? words.every(wholeDuration(source.every)) : words.times(source.at?.length ?? 0);
}

export type Verb = keyof typeof words.verbs;

/** Why this cannot be asked of the trigger as it stands; undefined where it can. */
export function whyNot(verb: Verb, trigger: Trigger): string | undefined {
  const { off } = words;
  if (trigger.state === "quarantined" && verb !== "delete") return off.quarantined;
  if (verb === "pause" && trigger.state === "paused") return off.paused;
  if (verb === "pause" && trigger.state === "done") return off.done;
  if (verb === "resume" && trigger.state !== "paused") return off.active;
  if (verb === "backfill" && trigger.kind !== "schedule") return off.noSchedule;
  if (verb === "rewind" && !READ.includes(trigger.kind)) return off.noSource;
  return undefined;
}

/** What stands beside its name: stopped by itself is worse than paused. */
export function stateOf(trigger: Trigger): {
  readonly word: string;
  readonly group: "good" | "waits" | "bad" | "none";
} {
  if (trigger.state === "quarantined") return { word: words.states.quarantined ?? "", group: "bad" };
  if (trigger.error) return { word: words.states.stopped ?? "", group: "bad" };
  const group = trigger.state === "active" ? "good" : trigger.state === "paused" ? "waits" : "none";
  return { word: words.states[trigger.state] ?? trigger.state, group };
}

/** What a firing by hand would do now, by the limit and what is to happen beyond it. */
export function fireNext(trigger: Trigger, given: Overlap | ""): string {
  const text = words.fire.next;
  const spec = specOf(trigger);
  const overlap = given || spec.overlap;
  if (trigger.state === "paused") return text.paused;
  if (trigger.open < spec.limits.open || overlap === "allow") return text.starts;
  if (overlap === "skip") return text.skip(trigger.open);
  return overlap === "cancel" || overlap === "terminate" ? text.stops(trigger.open) : text.waits(trigger.open);
}
