// Fire: one run now, with the inputs that the trigger would give or with others.
import { useSignal } from "@preact/signals";
import { useState } from "preact/hooks";
import { call, type Schemas } from "../../../api/call.ts";
import { useLoad } from "../../../api/load.ts";
import { CopyAs } from "../../../kit/CopyAs.tsx";
import { Json } from "../../../kit/Json.tsx";
import { Field, Sheet } from "../../../kit/Sheet.tsx";
import { words } from "../../../words/triggers.ts";
import { doingOf } from "../doing.ts";
import type { Opened } from "../sheets.tsx";
import { fireNext, type Overlap } from "../spec.ts";
import { JsonField, Next, RunLink, readInputs } from "./parts.tsx";

export function FireSheet({ trigger, onClose }: Opened) {
  const text = words.fire;
  const { name } = trigger;
  const typed = useSignal("");
  const overlap = useSignal<Overlap | "">("");
  const fired = useSignal<Schemas["TriggerFired"] | undefined>(undefined);
  // Asked twice with one key it is one firing, whatever happens to the first answer.
  const [key] = useState(() => crypto.randomUUID());
  const read = readInputs(typed.value);
  const isSchedule = trigger.kind === "schedule";
  const gives = useLoad(name, async (signal) =>
    isSchedule ? call("POST /api/v1/triggers/{name}/test", { path: { name }, body: {} as never, signal }) : undefined,
  );
  const body = {
    ...(read.value === undefined ? {} : { inputs: read.value }),
    ...(overlap.value ? { overlap: overlap.value } : {}),
  };
  const act = async () => {
    fired.value = await call("POST /api/v1/triggers/{name}/fire", {
      path: { name },
      body: body as never,
      headers: { "Idempotency-Key": key },
    });
  };
  const done = fired.value;
  return (
    <Sheet
      title={words.titles.fire(name)}
      verb={words.verbs.fire}
      onClose={onClose}
      onDo={act}
      whyNot={read.problem}
      done={
        done && (
          <p role="status">
            {words.done[done.state]}{" "}
            {(done.state === "started" || done.state === "known") && <RunLink run={done.run_id} />}
          </p>
        )
      }
    >
      <p>{words.does.fire}</p>
      {!done && (
        <>
          <JsonField label={text.inputs} hint={text.inputsHint} text={typed} invalid={read.problem !== undefined} />
          {gives.data.value?.result === "mapped" && !typed.value.trim() && (
            <section>
              <h3>{text.gives}</h3>
              <Json value={gives.data.value.inputs ?? {}} />
            </section>
          )}
          <Field label={text.overlap}>
            {(named) => (
              <select
                {...named}
                value={overlap.value}
                onChange={(event) => (overlap.value = event.currentTarget.value as Overlap | "")}
              >
                <option value="">{text.asItSays}</option>
                {Object.entries(words.overlaps).map(([one, what]) => (
                  <option key={one} value={one}>
                    {what}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <Next lines={[fireNext(trigger, overlap.value)]} />
          <CopyAs doing={doingOf("fire", name, body)} />
        </>
      )}
    </Sheet>
  );
}
