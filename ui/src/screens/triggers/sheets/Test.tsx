// Test: what a trigger would make of an item, or of its next moment. Nothing is started.
import { useSignal } from "@preact/signals";
import { call, type Schemas } from "../../../api/call.ts";
import { Foreign } from "../../../kit/basics.tsx";
import { Json } from "../../../kit/Json.tsx";
import { Field, Sheet } from "../../../kit/Sheet.tsx";
import { clockIn, momentIn } from "../../../kit/zones.ts";
import { words } from "../../../words/triggers.ts";
import { readJson } from "../../run/sheet/json.ts";
import type { Opened } from "../sheets.tsx";
import { zoneOf } from "../spec.ts";
import { JsonField } from "./parts.tsx";

export function TestSheet({ trigger, onClose }: Opened) {
  const text = words.test;
  const { name } = trigger;
  const isSchedule = trigger.kind === "schedule";
  const typed = useSignal(trigger.kind === "webhook" ? '{"body": {}, "headers": {}, "query": {}}' : "{}");
  const at = useSignal("");
  const found = useSignal<Schemas["TriggerTested"] | undefined>(undefined);
  const read = readJson(typed.value);
  const act = async () => {
    const moment = at.value ? momentIn(at.value, zoneOf(trigger)) : undefined;
    const body = isSchedule
      ? moment === undefined
        ? {}
        : { at: moment }
      : { item: "value" in read ? (read.value ?? null) : null, id: "test" };
    found.value = await call("POST /api/v1/triggers/{name}/test", { path: { name }, body: body as never });
  };
  const result = found.value;
  return (
    <Sheet
      title={words.titles.test(name)}
      verb={words.verbs.test}
      onClose={onClose}
      onDo={act}
      whyNot={!isSchedule && "problem" in read ? read.problem : undefined}
    >
      <p>{words.does.test}</p>
      {isSchedule ? (
        <Field label={text.at} hint={<Foreign text={`${text.atHint} ${words.backfill.zone(zoneOf(trigger))}`} />}>
          {(named) => (
            <input
              {...named}
              type="datetime-local"
              value={at.value}
              onInput={(event) => (at.value = event.currentTarget.value)}
            />
          )}
        </Field>
      ) : (
        <JsonField
          label={text.item}
          hint={trigger.kind === "webhook" ? text.itemHint.webhook : text.itemHint.other}
          text={typed}
          invalid={"problem" in read}
        />
      )}
      {result && (
        <section class="next" role="status">
          <h3>{text.results[result.result] ?? result.result}</h3>
          <dl class="answers">
            {typeof result.moment === "number" && (
              <Row name={text.moment} value={clockIn(result.moment, zoneOf(trigger)).replace("T", " ")} />
            )}
            {result.id && <Row name={text.id} value={result.id} />}
            {result.key && <Row name={text.key} value={result.key} />}
          </dl>
          {result.error && (
            <p class="bad">
              {result.part && text.part(result.part)} <Foreign text={result.error} />
            </p>
          )}
          {result.result === "mapped" && (
            <>
              <h3>{text.inputs}</h3>
              <Json value={result.inputs ?? {}} copy />
            </>
          )}
        </section>
      )}
    </Sheet>
  );
}

function Row({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <Foreign text={value} />
      </dd>
    </div>
  );
}
