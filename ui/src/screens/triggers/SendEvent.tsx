// Send an event: its name, a key, a payload; and afterwards who listened.
import { useSignal } from "@preact/signals";
import { useState } from "preact/hooks";
import { call, type Schemas } from "../../api/call.ts";
import { CopyAs } from "../../kit/CopyAs.tsx";
import { Field, Sheet } from "../../kit/Sheet.tsx";
import { lacks } from "../../shell/me.ts";
import { events as text } from "../../words/events.ts";
import { readJson } from "../run/sheet/json.ts";
import { eventDoing } from "./events.ts";

interface Props {
  /** The event that is waited for, where one is. */
  readonly name?: string;
  readonly eventKey?: string;
  readonly onClose: () => void;
}

export default function SendEvent({ name: awaited = "", eventKey = "", onClose }: Props) {
  const name = useSignal(awaited);
  const key = useSignal(eventKey);
  const typed = useSignal("");
  const id = useSignal("");
  const sent = useSignal<Schemas["EventSent"] | undefined>(undefined);
  // Asked twice it is one event, whatever happens to the first answer.
  const [once] = useState(() => crypto.randomUUID());
  const read = readJson(typed.value);
  const payload = "value" in read ? (read.value ?? null) : null;
  const about = { name: name.value.trim(), key: key.value, payload, id: id.value.trim() };
  const act = async () => {
    const body = { ...about, id: about.id || once };
    sent.value = await call("POST /api/v1/events", { body: body as never });
  };
  const done = sent.value;
  const problem = about.name ? ("problem" in read ? read.problem : undefined) : text.needs;
  return (
    <Sheet
      title={text.title}
      verb={text.verb}
      onClose={onClose}
      onDo={act}
      whyNot={lacks("runs:start") ?? problem}
      done={
        done && (
          <p role="status">
            {done.duplicate ? text.duplicate : text.sent(done.listeners)}{" "}
            {done.other_keys > 0 && text.otherKeys(done.other_keys)}
          </p>
        )
      }
    >
      <p>{text.does}</p>
      {!done && (
        <>
          <Line label={text.name} hint={text.nameHint} value={name} most={128} />
          <Line label={text.key} hint={text.keyHint} value={key} most={500} />
          <Field label={text.payload} hint={"problem" in read ? read.problem : undefined}>
            {(named) => (
              <textarea
                {...named}
                class="code"
                rows={4}
                spellcheck={false}
                aria-invalid={"problem" in read}
                value={typed.value}
                onInput={(event) => (typed.value = event.currentTarget.value)}
              />
            )}
          </Field>
          <Line label={text.id} hint={text.idHint} value={id} most={500} />
          <CopyAs doing={eventDoing(about)} />
        </>
      )}
    </Sheet>
  );
}

interface Typed {
  readonly label: string;
  readonly hint: string;
  readonly value: { value: string };
  readonly most: number;
}

function Line({ label, hint, value, most }: Typed) {
  return (
    <Field label={label} hint={hint}>
      {(named) => (
        <input
          {...named}
          type="text"
          maxLength={most}
          value={value.value}
          onInput={(event) => (value.value = event.currentTarget.value)}
        />
      )}
    </Field>
  );
}
