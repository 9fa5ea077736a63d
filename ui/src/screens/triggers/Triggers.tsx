// Triggers: what starts runs by itself, whether it does, and when it did last and will next.
import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect } from "preact/hooks";
import { call } from "../../api/call.ts";
import { usePoll } from "../../api/poll.ts";
import { Command, Empty, Foreign, Loading, Moment } from "../../kit/basics.tsx";
import { later } from "../../kit/Later.tsx";
import { Problem } from "../../kit/problem.tsx";
import { change, go, href, place } from "../../router.ts";
import { onKeys } from "../../shell/keys.ts";
import { lacks, readMe } from "../../shell/me.ts";
import { words as general, number } from "../../words/en.ts";
import { events } from "../../words/events.ts";
import { words } from "../../words/triggers.ts";
import { TriggerMark, toTrigger } from "./parts.tsx";
import { type Trigger, whenOf, zoneOf } from "./spec.ts";
import { OneTrigger } from "./Trigger.tsx";

const SendEvent = later(() => import("./SendEvent.tsx"), true);
const POLL_SECONDS = 3;
const MOST = 200;

export default function Triggers({ names }: { names: Readonly<Record<string, string>> }) {
  useEffect(() => {
    void readMe();
  }, []);
  if (names.name) return <OneTrigger key={names.name} name={names.name} />;
  return <List />;
}

function List() {
  const { query } = place.value;
  const kind = query.get("kind") ?? "";
  const state = query.get("state") ?? "";
  useEffect(() => {
    document.title = `${words.title} · ${general.product}`;
  }, []);
  const found = usePoll(`${kind} ${state}`, POLL_SECONDS, (signal) =>
    call("GET /api/v1/triggers", {
      query: { kind: kind || undefined, state: (state || undefined) as never, limit: MOST },
      signal,
    }),
  );
  const page = found.data.value;
  const sending = useSignal(false);
  const off = lacks("runs:start");
  return (
    <section class="screen">
      <header class="head">
        <h1>{words.title}</h1>
        <p class="soft number" role="status">
          {page && page.items.length > 0 && words.count(page.items.length, page.next_cursor !== null)}
        </p>
      </header>
      <div class="bar">
        <Filter name="kind" label={words.filters.kind} value={kind} choices={words.kinds} />
        <Filter
          name="state"
          label={words.filters.state}
          value={state}
          choices={{
            active: words.states.active ?? "",
            paused: words.states.paused ?? "",
            done: words.states.done ?? "",
          }}
        />
        <button
          type="button"
          class="push"
          aria-disabled={off !== undefined}
          title={off}
          onClick={() => (sending.value = off === undefined)}
        >
          {events.way}
        </button>
        <a class="button" href={href("/schedules")}>
          {words.calendar}
        </a>
      </div>
      {sending.value && <SendEvent onClose={() => (sending.value = false)} />}
      {!page ? (
        found.error.value === undefined ? (
          <Loading />
        ) : (
          <Problem error={found.error.value} onRetry={found.retry} />
        )
      ) : page.items.length > 0 ? (
        <Table triggers={page.items} />
      ) : kind || state ? (
        <Empty title={words.none.filtered} />
      ) : (
        <Empty title={words.none.title}>
          <p>{words.none.text}</p>
          <Command text={words.none.command} />
        </Empty>
      )}
    </section>
  );
}

interface Choosing {
  readonly name: string;
  readonly label: string;
  readonly value: string;
  readonly choices: Readonly<Record<string, string>>;
}

function Filter({ name, label, value, choices }: Choosing) {
  return (
    <label class="pick">
      <span>{label}</span>
      <select value={value} onChange={(event) => change({ [name]: event.currentTarget.value })}>
        <option value="">{words.filters.any}</option>
        {Object.entries(choices).map(([one, text]) => (
          <option key={one} value={one}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

function Table({ triggers }: { triggers: readonly Trigger[] }) {
  const { columns } = words;
  const at = useSignal(-1);
  useLayoutEffect(() => {
    const move = (by: number) => () => {
      at.value = Math.max(0, Math.min(triggers.length - 1, at.value + by));
      document.querySelectorAll<HTMLElement>(".trigger-row a.name")[at.value]?.focus();
    };
    return onKeys({ j: move(1), k: move(-1) });
  }, [triggers.length]);
  return (
    <div class="scroller">
      <table class="ops-table triggers">
        <thead>
          <tr>
            <th scope="col">{columns.name}</th>
            <th scope="col">{columns.state}</th>
            <th scope="col">{columns.workflow}</th>
            <th scope="col">{columns.next}</th>
            <th scope="col">{columns.last}</th>
            <th scope="col" class="end">
              {columns.open}
            </th>
            <th scope="col" class="end">
              {columns.waiting}
            </th>
            <th scope="col" class="end">
              {columns.parked}
            </th>
          </tr>
        </thead>
        <tbody>
          {triggers.map((one) => (
            <Row key={one.trigger_id} trigger={one} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ trigger }: { trigger: Trigger }) {
  const when = whenOf(trigger);
  return (
    // The name in it is a link, for the keyboard; the rest of the row is a larger place to click.
    <tr
      class="trigger-row"
      onClick={(event) => {
        if (!(event.target instanceof HTMLElement && event.target.closest("a"))) go(toTrigger(trigger.name));
      }}
    >
      <td>
        <a class="name" href={toTrigger(trigger.name)}>
          <Foreign text={trigger.name} />
        </a>
        <div class="soft small">
          {words.kinds[trigger.kind] ?? trigger.kind} {when && <Foreign text={when} className="when" />}
        </div>
      </td>
      <td>
        <TriggerMark trigger={trigger} />
        {trigger.failures > 0 && <div class="small bad">{words.failures(trigger.failures)}</div>}
      </td>
      <td>
        <a href={href(`/workflows/${encodeURIComponent(trigger.workflow.split("@")[0] ?? "")}`)}>
          <Foreign text={trigger.workflow} />
        </a>
      </td>
      <td>
        <NextMoment trigger={trigger} />
      </td>
      <td>
        {trigger.last_at === null ? <span class="soft">{words.none.never}</span> : <Moment at={trigger.last_at} />}
      </td>
      <Count value={trigger.open} />
      <Count value={trigger.waiting} />
      <Count value={trigger.parked} bad />
    </tr>
  );
}

/** In the reader's zone; on hover in its own. */
function NextMoment({ trigger }: { trigger: Trigger }) {
  if (trigger.kind !== "schedule") return <span class="soft">{words.none.nothing}</span>;
  if (trigger.state !== "active" || trigger.next_at === null)
    return <span class="soft">{trigger.state === "paused" ? words.states.paused : words.none.noMore}</span>;
  return (
    <>
      <Moment at={trigger.next_at} />
      <div class="soft small">
        <Foreign text={zoneOf(trigger)} />
      </div>
    </>
  );
}

function Count({ value, bad = false }: { value: number; bad?: boolean }) {
  return <td class={value === 0 ? "number end soft" : bad ? "number end bad" : "number end"}>{number(value)}</td>;
}
