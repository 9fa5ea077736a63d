// What several screens of triggers show.
import { Icon } from "../../kit/basics.tsx";
import { MARKS } from "../../kit/states.ts";
import { exactTime, zone } from "../../kit/time.ts";
import { clockIn } from "../../kit/zones.ts";
import { href } from "../../router.ts";
import { stateOf, type Trigger, zoneOf } from "./spec.ts";

export const toTrigger = (name: string): string => href(`/triggers/${encodeURIComponent(name)}`);

export function TriggerMark({ trigger }: { trigger: Trigger }) {
  const { word, group } = stateOf(trigger);
  return (
    <span class="state" data-group={group}>
      <Icon path={MARKS[group]} className="mark" />
      <span>{word}</span>
    </span>
  );
}

/** A moment by the clock of the schedule, exactly on hover. */
export function At({ at, trigger }: { at: number; trigger: Trigger }) {
  const own = zoneOf(trigger);
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={exactTime(at, zone.value)} class="number">
      {clockIn(at, own).replace("T", " ")}
    </time>
  );
}

/** A number that changes with the text: what is shown stays until the new answer is there. */
export function hashOf(text: string): number {
  let found = 0;
  for (let index = 0; index < text.length; index++) found = (found * 31 + text.charCodeAt(index)) | 0;
  return found;
}
