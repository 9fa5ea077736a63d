// Pause and resume: what passes meanwhile, and what goes on.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { call, now } from "../../../api/call.ts";
import { useLoad } from "../../../api/load.ts";
import { CopyAs } from "../../../kit/CopyAs.tsx";
import { Sheet } from "../../../kit/Sheet.tsx";
import { shownTime, zone } from "../../../kit/time.ts";
import { words } from "../../../words/triggers.ts";
import { doingOf } from "../doing.ts";
import type { Opened } from "../sheets.tsx";
import type { Trigger } from "../spec.ts";
import { Next, ReasonField } from "./parts.tsx";

const shown = (at: number): string => shownTime(at, zone.value, now());

function pauseLines(trigger: Trigger): string[] {
  const text = words.pause;
  const lines: string[] = [];
  if (trigger.kind === "schedule") {
    if (trigger.next_at !== null) lines.push(text.schedule(shown(trigger.next_at)));
  } else lines.push(["webhook", "event", "runs"].includes(trigger.kind) ? text.pushed : text.polled);
  if (trigger.waiting > 0) lines.push(text.waiting(trigger.waiting));
  return lines;
}

export function PauseSheet({ trigger, onClose }: Opened) {
  const { name } = trigger;
  const reason = useSignal("");
  const done = useSignal(false);
  const body = reason.value ? { reason: reason.value } : {};
  const act = async () => {
    await call("POST /api/v1/triggers/{name}/pause", { path: { name }, body: body as never });
    done.value = true;
  };
  return (
    <Sheet
      title={words.titles.pause(name)}
      verb={words.verbs.pause}
      onClose={onClose}
      onDo={act}
      done={done.value ? <p role="status">{words.done.paused}</p> : undefined}
    >
      <p>{words.does.pause}</p>
      {!done.value && (
        <>
          <Next lines={pauseLines(trigger)} />
          <ReasonField reason={reason} />
          <CopyAs doing={doingOf("pause", name, body)} />
        </>
      )}
    </Sheet>
  );
}

export function ResumeSheet({ trigger, onClose }: Opened) {
  const text = words.resume;
  const { name } = trigger;
  const after = useSignal<Trigger | undefined>(undefined);
  const isSchedule = trigger.kind === "schedule";
  const next = useLoad(name, async (signal) =>
    isSchedule ? call("GET /api/v1/triggers/{name}/next", { path: { name }, query: { count: 1 }, signal }) : undefined,
  );
  const first = next.data.value?.items[0];
  const lines: ComponentChildren[] = [];
  if (first) lines.push(`${text.next} ${shown(first.due)}`);
  if (trigger.waiting > 0) lines.push(text.waiting(trigger.waiting));
  if (!isSchedule && trigger.waiting === 0) lines.push(text.nothing);
  const act = async () => {
    after.value = await call("POST /api/v1/triggers/{name}/resume", { path: { name }, body: {} as never });
  };
  const done = after.value;
  return (
    <Sheet
      title={words.titles.resume(name)}
      verb={words.verbs.resume}
      onClose={onClose}
      onDo={act}
      done={
        done && (
          <p role="status">
            {done.next_at === null ? words.done.resumedOnly : words.done.resumed(shown(done.next_at))}
          </p>
        )
      }
    >
      <p>{words.does.resume}</p>
      {!done && (
        <>
          {lines.length > 0 && <Next lines={lines} />}
          <CopyAs doing={doingOf("resume", name, {})} />
        </>
      )}
    </Sheet>
  );
}
