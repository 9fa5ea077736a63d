// Rewind: a source is read from another cursor on. Its name is typed, so that nobody does it by accident.
import { useSignal } from "@preact/signals";
import { call } from "../../../api/call.ts";
import { Foreign } from "../../../kit/basics.tsx";
import { CopyAs } from "../../../kit/CopyAs.tsx";
import { Json } from "../../../kit/Json.tsx";
import { Field, Sheet } from "../../../kit/Sheet.tsx";
import { words } from "../../../words/triggers.ts";
import { doingOf } from "../doing.ts";
import type { Opened } from "../sheets.tsx";
import { Next, ReasonField } from "./parts.tsx";

export function RewindSheet({ trigger, onClose }: Opened) {
  const text = words.rewind;
  const { name } = trigger;
  const cursor = useSignal("");
  const reason = useSignal("");
  const typed = useSignal("");
  const again = useSignal(false);
  const done = useSignal(false);
  const body = { cursor: cursor.value.trim() || null, reason: reason.value, ...(again.value ? { again: true } : {}) };
  const act = async () => {
    await call("POST /api/v1/triggers/{name}/rewind", { path: { name }, body: body as never });
    done.value = true;
  };
  const isSure = typed.value === name && reason.value.trim() !== "";
  return (
    <Sheet
      title={words.titles.rewind(name)}
      verb={words.verbs.rewind}
      harmful
      onClose={onClose}
      onDo={act}
      whyNot={isSure ? undefined : text.needed}
      done={done.value ? <p role="status">{words.done.rewind}</p> : undefined}
    >
      <p>{words.does.rewind}</p>
      {!done.value && (
        <>
          <section>
            <h3>{text.now}</h3>
            <Json value={trigger.cursor} copy />
          </section>
          <Field label={text.cursor} hint={text.cursorHint}>
            {(named) => (
              <textarea
                {...named}
                class="code"
                rows={2}
                spellcheck={false}
                value={cursor.value}
                onInput={(event) => (cursor.value = event.currentTarget.value)}
              />
            )}
          </Field>
          <label class="check">
            <input
              type="checkbox"
              checked={again.value}
              onChange={(event) => (again.value = event.currentTarget.checked)}
            />
            {text.again}
          </label>
          <Next
            lines={[
              body.cursor === null ? text.beginning : <Foreign key="cursor" text={text.goes(body.cursor)} />,
              again.value ? words.backfill.twice : words.backfill.once,
            ]}
          />
          <ReasonField reason={reason} />
          <Field label={<Foreign text={text.type(name)} />}>
            {(named) => (
              <input
                {...named}
                type="text"
                autoComplete="off"
                spellcheck={false}
                value={typed.value}
                onInput={(event) => (typed.value = event.currentTarget.value)}
              />
            )}
          </Field>
          <CopyAs doing={doingOf("rewind", name, body)} />
        </>
      )}
    </Sheet>
  );
}
