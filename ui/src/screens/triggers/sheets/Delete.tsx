// Delete: the trigger ends for good. Its name is typed, so that nobody does it by accident.
import { useSignal } from "@preact/signals";
import { call } from "../../../api/call.ts";
import { Foreign } from "../../../kit/basics.tsx";
import { CopyAs } from "../../../kit/CopyAs.tsx";
import { Field, Sheet } from "../../../kit/Sheet.tsx";
import { href } from "../../../router.ts";
import { words } from "../../../words/triggers.ts";
import { doingOf } from "../doing.ts";
import type { Opened } from "../sheets.tsx";
import { Next } from "./parts.tsx";

export function DeleteSheet({ trigger, onClose }: Opened) {
  const text = words.remove;
  const { name } = trigger;
  const typed = useSignal("");
  const done = useSignal(false);
  const act = async () => {
    await call("DELETE /api/v1/triggers/{name}", { path: { name } });
    done.value = true;
  };
  const lines = [
    trigger.waiting > 0 ? text.waiting(trigger.waiting) : text.none,
    ...(trigger.open > 0 ? [text.open(trigger.open)] : []),
    ...(trigger.parked > 0 ? [text.parked(trigger.parked)] : []),
    text.again,
  ];
  return (
    <Sheet
      title={words.titles.delete(name)}
      verb={words.verbs.delete}
      harmful
      onClose={onClose}
      onDo={act}
      whyNot={typed.value === name ? undefined : text.needed}
      done={
        done.value ? (
          <p role="status">
            {words.done.deleted} <a href={href("/triggers")}>{words.list}</a>
          </p>
        ) : undefined
      }
    >
      <p>{words.does.delete}</p>
      {!done.value && (
        <>
          <Next lines={lines} />
          <Field label={<Foreign text={words.rewind.type(name)} />}>
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
          <CopyAs doing={doingOf("delete", name, {})} />
        </>
      )}
    </Sheet>
  );
}
