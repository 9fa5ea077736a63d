// What a signal needs: a name, those that are waited for offered first; a payload; an id by which it counts once.
import type { Signal } from "@preact/signals";
import { useSignal } from "@preact/signals";
import { useId } from "preact/hooks";
import { Field } from "../../../kit/Sheet.tsx";
import { words } from "../../../words/actions.ts";
import { readJson } from "./json.ts";

export interface SignalGiven {
  readonly name: string;
  readonly payload: unknown;
  readonly id: string;
  readonly problem?: string | undefined;
}

export function SignalFields({ given, awaited }: { given: Signal<SignalGiven>; awaited: readonly string[] }) {
  const text = words.signal;
  const list = useId();
  const payload = useSignal("");
  const put = (parts: Partial<SignalGiven>) => {
    given.value = { ...given.value, ...parts };
  };
  return (
    <>
      <Field label={text.name} hint={text.nameHint(awaited)}>
        {(named) => (
          <>
            <input
              {...named}
              type="text"
              list={list}
              maxLength={200}
              value={given.value.name}
              onInput={(event) => put({ name: event.currentTarget.value })}
            />
            <datalist id={list}>
              {awaited.map((name) => (
                <option key={name} value={name} />
              ))}
            </datalist>
          </>
        )}
      </Field>
      <Field label={text.payload} hint={given.value.problem}>
        {(named) => (
          <textarea
            {...named}
            rows={3}
            class="code"
            spellcheck={false}
            value={payload.value}
            onInput={(event) => {
              payload.value = event.currentTarget.value;
              const read = readJson(payload.value);
              put("problem" in read ? { problem: read.problem } : { payload: read.value ?? null, problem: undefined });
            }}
          />
        )}
      </Field>
      <Field label={text.id} hint={text.idHint}>
        {(named) => (
          <input
            {...named}
            type="text"
            maxLength={200}
            value={given.value.id}
            onInput={(event) => put({ id: event.currentTarget.value })}
          />
        )}
      </Field>
    </>
  );
}
