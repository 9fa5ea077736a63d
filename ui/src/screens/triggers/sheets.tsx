// The sheets that ask before a trigger is fired, stopped or moved: what would happen before, what happened after.
import type { Schemas } from "../../api/call.ts";
import { BackfillSheet } from "./sheets/Backfill.tsx";
import { DeleteSheet } from "./sheets/Delete.tsx";
import { FireSheet } from "./sheets/Fire.tsx";
import { DiscardSheet, RequeueSheet } from "./sheets/Parked.tsx";
import { PauseSheet, ResumeSheet } from "./sheets/Pause.tsx";
import { RewindSheet } from "./sheets/Rewind.tsx";
import { TestSheet } from "./sheets/Test.tsx";
import type { Trigger, Verb } from "./spec.ts";

export interface Asking {
  readonly verb: Verb;
  readonly item?: Schemas["TriggerItem"];
}

export interface Opened {
  readonly trigger: Trigger;
  readonly onClose: () => void;
}

export function TriggerSheet({ asking, ...opened }: Opened & { asking: Asking }) {
  const { verb, item } = asking;
  if (item)
    return verb === "requeue" ? <RequeueSheet item={item} {...opened} /> : <DiscardSheet item={item} {...opened} />;
  if (verb === "fire") return <FireSheet {...opened} />;
  if (verb === "pause") return <PauseSheet {...opened} />;
  if (verb === "resume") return <ResumeSheet {...opened} />;
  if (verb === "delete") return <DeleteSheet {...opened} />;
  if (verb === "backfill") return <BackfillSheet {...opened} />;
  return verb === "rewind" ? <RewindSheet {...opened} /> : <TestSheet {...opened} />;
}
