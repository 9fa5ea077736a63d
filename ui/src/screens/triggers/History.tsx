// What a trigger did and did not do, each with its reason, newest first. It is read from the journal of the trigger.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Foreign, Loading, Moment, StateMark } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { href } from "../../router.ts";
import { words } from "../../words/triggers.ts";
import { type Line, linesOf, type Source, type TriggerEvent, TYPES } from "./history.ts";
import { At, hashOf } from "./parts.tsx";
import type { Trigger } from "./spec.ts";

const PAGE = 200;
const NEWEST = 1_000_000_000;

export function History({ trigger, turn }: { trigger: Trigger; turn: string }) {
  const text = words.history;
  const older = useSignal<readonly TriggerEvent[]>([]);
  const open = useSignal(0);
  const next = useSignal<number | undefined>(undefined);
  const path = { run_id: trigger.trigger_id };
  const read = async (before: number, signal?: AbortSignal) =>
    call("GET /api/v1/runs/{run_id}/events", {
      path,
      query: { before, limit: PAGE, type: [...TYPES], outputs: false },
      ...(signal ? { signal } : {}),
    });
  const loaded = useLoad(
    trigger.trigger_id,
    async (signal) => {
      const [page, runs] = await Promise.all([
        read(NEWEST, signal),
        call("GET /api/v1/runs", { query: { tag: [`trigger=${trigger.name}`], limit: PAGE }, signal }),
      ]);
      // Where runs may overlap, a trigger does not wait for their ends: how they stand is asked.
      return { items: page.items, states: new Map(runs.items.map((one) => [one.run_id, one.state as string])) };
    },
    hashOf(`${turn} ${open.value}`),
  );
  useEffect(() => {
    older.value = [];
    next.value = undefined;
  }, [trigger.trigger_id]);
  const first = (loaded.data.value?.items ?? []) as readonly TriggerEvent[];
  const known = new Map([...older.value, ...first].map((one) => [one.seq, one]));
  const states = loaded.data.value?.states;
  const lines = linesOf([...known.values()]).map((one) =>
    one.kind === "run" ? { ...one, state: one.state ?? states?.get(one.run) } : one,
  );
  const isGoing = lines.some((one) => one.kind === "run" && (one.state ?? "running") === "running");
  useEffect(() => {
    if (!isGoing) return undefined;
    const timer = setTimeout(() => (open.value += 1), 3000);
    return () => clearTimeout(timer);
  }, [isGoing, loaded.data.value]);
  const lowest = Math.min(...known.keys());
  const more = async () => {
    const found = await read(next.value ?? lowest).catch(() => undefined); // the banner says that no answer came
    if (!found) return;
    older.value = [...older.value, ...(found.items as readonly TriggerEvent[])];
    next.value = found.items.length < PAGE ? 0 : Math.min(...found.items.map((one) => one.seq));
  };
  const hasMore = next.value === undefined ? first.length >= PAGE : next.value > 0;
  return (
    <section class="stack">
      <h2 id="history-title">{words.sections.history}</h2>
      {!loaded.data.value ? (
        loaded.error.value === undefined ? (
          <Loading rows={4} />
        ) : (
          <Problem error={loaded.error.value} onRetry={loaded.reload} />
        )
      ) : lines.length === 0 ? (
        <p class="soft">{text.none}</p>
      ) : (
        <div class="scroller" role="group" aria-labelledby="history-title" tabIndex={0}>
          <table class="ops-table history" aria-labelledby="history-title">
            <thead>
              <tr>
                <th scope="col">{text.at}</th>
                <th scope="col">{text.what}</th>
                <th scope="col">{text.outcome}</th>
              </tr>
            </thead>
            <tbody>
              {lines.map((line) => (
                <tr key={`${line.seq} ${line.kind === "run" ? line.run : ""}`}>
                  <td class="nowrap">
                    <Moment at={line.at} />
                  </td>
                  <td>
                    <What line={line} trigger={trigger} />
                    {line.isBackfill && <span class="soft small"> {text.backfill}</span>}
                  </td>
                  <td>
                    <Outcome line={line} trigger={trigger} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {hasMore && (
        <button type="button" class="quiet start" onClick={more}>
          {text.more}
        </button>
      )}
    </section>
  );
}

function SourceOf({ source, trigger }: { source: Source; trigger: Trigger }) {
  const text = words.history;
  if (source.moment !== undefined)
    return (
      <>
        {text.moment("")}
        <At at={source.moment} trigger={trigger} />
      </>
    );
  return source.byHand ? text.byHand : <Foreign text={text.item(source.id)} />;
}

function What({ line, trigger }: { line: Line; trigger: Trigger }) {
  const text = words.history;
  const { says } = text;
  switch (line.kind) {
    case "run":
      if (line.count > 1) return <>{text.items(line.count)}</>;
      return line.source ? <SourceOf source={line.source} trigger={trigger} /> : text.items(1);
    case "skipped": {
      const [only] = line.sources;
      return line.count === 1 && only ? <SourceOf source={only} trigger={trigger} /> : says.skipped(line.count);
    }
    case "parked":
      return <>{says.parked(line.item)}</>;
    case "released":
      return (
        <Foreign text={line.as === "skip" ? says.skip(line.item, by(line.by)) : says.again(line.item, by(line.by))} />
      );
    case "backfill":
      return <Foreign text={says.backfill(by(line.by))} />;
    case "rewound":
      return <Foreign text={says.rewound(by(line.by))} />;
    case "registered":
      return <Foreign text={says.registered(line.revision, by(line.by))} />;
    default:
      return <Foreign text={says[line.kind](by(line.by))} />;
  }
}

const by = (name: string): string => name || words.history.says.by;

function Outcome({ line, trigger }: { line: Line; trigger: Trigger }) {
  const text = words.history;
  switch (line.kind) {
    case "run":
      return (
        <a class="outcome" href={href(`/runs/${encodeURIComponent(line.run)}`)}>
          {line.state === "lost" ? (
            <span class="bad">{text.lost}</span>
          ) : (
            <StateMark state={line.state === "duplicate" ? "skipped" : (line.state ?? "running")} small />
          )}
          <Foreign text={`…${line.run.slice(-8)}`} className="id" />
        </a>
      );
    case "skipped":
      return (
        <>
          <span class="soft">{text.reasons[line.reason] ?? line.reason}</span>{" "}
          {line.since !== undefined && line.until !== undefined && (
            <span class="soft small">
              <At at={line.since} trigger={trigger} /> – <At at={line.until} trigger={trigger} />
            </span>
          )}
        </>
      );
    case "parked":
      return (
        <span class="bad">
          <code>{line.code}</code> <Foreign text={line.message} />
        </span>
      );
    case "backfill":
      return (
        <span class="soft">
          <At at={line.since} trigger={trigger} /> – <At at={line.until} trigger={trigger} />
        </span>
      );
    case "rewound":
      return <Foreign text={line.note} className="soft" />;
    case "paused":
      return <Foreign text={line.reason} className="soft" />;
    default:
      return null;
  }
}
