// A parked item: it starts its run after all, or it is given up.
import { useSignal } from "@preact/signals";
import { call, type Schemas } from "../../../api/call.ts";
import { Foreign } from "../../../kit/basics.tsx";
import { CopyAs } from "../../../kit/CopyAs.tsx";
import { Sheet } from "../../../kit/Sheet.tsx";
import { number } from "../../../words/en.ts";
import { words } from "../../../words/triggers.ts";
import { doingOf } from "../doing.ts";
import type { Opened } from "../sheets.tsx";
import { JsonField, readInputs } from "./parts.tsx";

type Item = Schemas["TriggerItem"];

function Why({ item }: { item: Item }) {
  if (!item.error) return null;
  return (
    <div class="failure">
      <code>{item.error.code}</code>
      {item.error.message && (
        <pre>
          <Foreign text={item.error.message} />
        </pre>
      )}
    </div>
  );
}

export function RequeueSheet({ trigger, item, onClose }: Opened & { item: Item }) {
  const text = words.requeue;
  const typed = useSignal("");
  const done = useSignal(false);
  const read = readInputs(typed.value);
  const body = read.value === undefined ? {} : { inputs: read.value };
  const act = async () => {
    await call("POST /api/v1/triggers/{name}/items/{number}/requeue", {
      path: { name: trigger.name, number: String(item.number) } as never,
      body: body as never,
    });
    done.value = true;
  };
  return (
    <Sheet
      title={words.titles.requeue(number(item.number))}
      verb={words.verbs.requeue}
      onClose={onClose}
      onDo={act}
      whyNot={read.problem}
      done={done.value ? <p role="status">{words.done.requeue}</p> : undefined}
    >
      <p>{words.does.requeue}</p>
      {!done.value && (
        <>
          <Why item={item} />
          <JsonField label={text.inputs} hint={text.inputsHint} text={typed} invalid={read.problem !== undefined} />
          <CopyAs doing={doingOf("requeue", trigger.name, body, item.number)} />
        </>
      )}
    </Sheet>
  );
}

export function DiscardSheet({ trigger, item, onClose }: Opened & { item: Item }) {
  const done = useSignal(false);
  const act = async () => {
    await call("POST /api/v1/triggers/{name}/items/{number}/discard", {
      path: { name: trigger.name, number: String(item.number) } as never,
      body: {} as never,
    });
    done.value = true;
  };
  return (
    <Sheet
      title={words.titles.discard(number(item.number))}
      verb={words.verbs.discard}
      harmful
      onClose={onClose}
      onDo={act}
      done={done.value ? <p role="status">{words.done.discard}</p> : undefined}
    >
      <p>{words.does.discard}</p>
      {!done.value && (
        <>
          <Why item={item} />
          <CopyAs doing={doingOf("discard", trigger.name, {}, item.number)} />
        </>
      )}
    </Sheet>
  );
}
