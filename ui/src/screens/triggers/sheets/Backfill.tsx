// Backfill: the moments of a time that is past, counted before anything is started.
import { useSignal } from "@preact/signals";
import { call, now, type Schemas } from "../../../api/call.ts";
import { useLoad } from "../../../api/load.ts";
import { Foreign } from "../../../kit/basics.tsx";
import { CopyAs } from "../../../kit/CopyAs.tsx";
import { Field, Refusal, Sheet } from "../../../kit/Sheet.tsx";
import { clockIn, dayIn, momentIn } from "../../../kit/zones.ts";
import { words } from "../../../words/triggers.ts";
import { doingOf } from "../doing.ts";
import type { Opened } from "../sheets.tsx";
import { type Trigger, zoneOf } from "../spec.ts";
import { Next } from "./parts.tsx";

const MOST = 1000;
const DAY = 86_400;

interface Counted {
  readonly count: number;
  readonly capped: boolean;
  readonly first: Schemas["TriggerMoment"] | undefined;
  readonly last: Schemas["TriggerMoment"] | undefined;
}

async function count(name: string, since: number, until: number, signal: AbortSignal): Promise<Counted> {
  const found = await call("GET /api/v1/triggers/{name}/next", {
    path: { name },
    query: { count: MOST, since: String(since) },
    signal,
  });
  const inside = found.items.filter((one) => one.moment < until);
  const capped = inside.length === MOST;
  return { count: inside.length, capped, first: inside[0], last: capped ? undefined : inside.at(-1) };
}

export function BackfillSheet({ trigger, onClose }: Opened) {
  const text = words.backfill;
  const { name } = trigger;
  const zone = zoneOf(trigger);
  const since = useSignal(`${dayIn(now() - 7 * DAY, zone)}T00:00`);
  const until = useSignal(clockIn(now(), zone).slice(0, 16));
  const open = useSignal(1);
  const again = useSignal(false);
  const after = useSignal<Trigger | undefined>(undefined);
  const from = momentIn(since.value, zone);
  const to = momentIn(until.value, zone);
  const isGood = from !== undefined && to !== undefined && from < to;
  const counted = useLoad(`${from} ${to}`, async (signal) => (isGood ? count(name, from, to, signal) : undefined));
  const found = counted.data.value;
  const body = {
    since: from ?? 0,
    until: to ?? 0,
    ...(open.value === 1 ? {} : { open: open.value }),
    ...(again.value ? { again: true } : {}),
  };
  const act = async () => {
    after.value = await call("POST /api/v1/triggers/{name}/backfill", { path: { name }, body: body as never });
  };
  const whyNot = !isGood
    ? text.order
    : found === undefined
      ? counted.error.value === undefined
        ? text.counting
        : undefined
      : found.count === 0
        ? text.none
        : undefined;
  const done = after.value;
  return (
    <Sheet
      title={words.titles.backfill(name)}
      verb={words.verbs.backfill}
      onClose={onClose}
      onDo={act}
      whyNot={whyNot}
      done={done && <p role="status">{words.done.backfill(trigger.waiting, trigger.open)}</p>}
    >
      <p>
        {words.does.backfill} <Foreign text={text.zone(zone)} />
      </p>
      {!done && (
        <>
          <div class="pair">
            <TimeField label={text.since} value={since.value} onInput={(value) => (since.value = value)} />
            <TimeField label={text.until} value={until.value} onInput={(value) => (until.value = value)} />
          </div>
          <Field label={text.open}>
            {(named) => (
              <input
                {...named}
                type="number"
                min={1}
                max={1000}
                value={open.value}
                onInput={(event) => (open.value = Math.max(1, Math.min(1000, event.currentTarget.valueAsNumber || 1)))}
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
          {found && found.count > 0 && (
            <Next
              lines={[
                <strong key="count">{text.found(found.count, found.capped)}</strong>,
                found.first && (
                  <>
                    {text.first} <Foreign text={found.first.local.replace("T", " ")} className="number" />
                    {found.last && found.count > 1 && (
                      <>
                        , {text.last} <Foreign text={found.last.local.replace("T", " ")} className="number" />
                      </>
                    )}
                  </>
                ),
                text.turns(open.value),
                again.value ? text.twice : text.once,
              ]}
            />
          )}
          {counted.error.value !== undefined && <Refusal error={counted.error.value} />}
          <CopyAs doing={doingOf("backfill", name, body)} />
        </>
      )}
    </Sheet>
  );
}

function TimeField({ label, value, onInput }: { label: string; value: string; onInput: (value: string) => void }) {
  return (
    <Field label={label}>
      {(named) => (
        <input {...named} type="datetime-local" value={value} onInput={(event) => onInput(event.currentTarget.value)} />
      )}
    </Field>
  );
}
