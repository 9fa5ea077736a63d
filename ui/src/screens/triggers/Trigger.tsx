// One trigger: how it stands, its coming moments, what happened and why, what it holds, and what can be asked of it.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call, now } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { usePoll } from "../../api/poll.ts";
import { Duration, Foreign, Loading, Moment } from "../../kit/basics.tsx";
import { Json } from "../../kit/Json.tsx";
import { Problem } from "../../kit/problem.tsx";
import { shownDuration, shownTime, zone } from "../../kit/time.ts";
import { href } from "../../router.ts";
import { lacks } from "../../shell/me.ts";
import { words as general } from "../../words/en.ts";
import { words } from "../../words/triggers.ts";
import { History } from "./History.tsx";
import { Items } from "./Items.tsx";
import { TriggerMark } from "./parts.tsx";
import { Send } from "./Send.tsx";
import { type Asking, TriggerSheet } from "./sheets.tsx";
import { specOf, type Trigger, type Verb, whenOf, wholeDuration, whyNot, zoneOf } from "./spec.ts";

const POLL_SECONDS = 2;

export function OneTrigger({ name }: { name: string }) {
  const asking = useSignal<Asking | undefined>(undefined);
  const found = usePoll(name, POLL_SECONDS, (signal) =>
    call("GET /api/v1/triggers/{name}", { path: { name }, signal }),
  );
  useEffect(() => {
    document.title = `${name} · ${words.title} · ${general.product}`;
  }, [name]);
  const trigger = found.data.value;
  return (
    <section class="screen">
      <div class="crumbs">
        <a href={href("/triggers")}>{words.list}</a>
      </div>
      {trigger ? (
        <Body trigger={trigger} onAsk={(next) => (asking.value = next)} />
      ) : (
        <>
          <h1>
            <Foreign text={name} />
          </h1>
          {found.error.value === undefined ? <Loading /> : <Problem error={found.error.value} onRetry={found.retry} />}
        </>
      )}
      {trigger && asking.value && (
        <TriggerSheet
          asking={asking.value}
          trigger={trigger}
          onClose={() => {
            asking.value = undefined;
            found.retry();
          }}
        />
      )}
    </section>
  );
}

function Body({ trigger, onAsk }: { trigger: Trigger; onAsk: (asking: Asking) => void }) {
  const spec = specOf(trigger);
  // What happened changes when the trigger does.
  const turn = `${trigger.trigger_id} ${trigger.revision} ${trigger.state} ${trigger.last_at} ${trigger.open} ${trigger.waiting} ${trigger.parked}`;
  return (
    <>
      <header class="head">
        <div class="trigger-title">
          <h1>
            <Foreign text={trigger.name} />
          </h1>
          <TriggerMark trigger={trigger} />
        </div>
        <Buttons trigger={trigger} onAsk={onAsk} />
      </header>
      {spec.description && (
        <p>
          <Foreign text={spec.description} />
        </p>
      )}
      {trigger.error && (
        <div class="failure" role="status">
          <code>{trigger.error.code}</code>
          {trigger.error.message && (
            <pre>
              <Foreign text={trigger.error.message} />
            </pre>
          )}
        </div>
      )}
      <Facts trigger={trigger} />
      {trigger.kind === "schedule" && <Next trigger={trigger} />}
      {trigger.hook !== null && spec.source.verify && (
        <Send hook={trigger.hook} verify={spec.source.verify} hasId={Boolean(spec.source.id)} />
      )}
      {trigger.waiting + trigger.open + trigger.parked > 0 && <Items trigger={trigger} turn={turn} onAsk={onAsk} />}
      <History trigger={trigger} turn={turn} />
      <details class="definition">
        <summary>{words.sections.definition}</summary>
        <Json value={trigger.spec} copy />
      </details>
    </>
  );
}

function Buttons({ trigger, onAsk }: { trigger: Trigger; onAsk: (asking: Asking) => void }) {
  const verbs: readonly Verb[] = [
    "fire",
    trigger.state === "paused" ? "resume" : "pause",
    "test",
    ...(whyNot("rewind", trigger) === undefined ? (["rewind"] as const) : []),
    ...(trigger.kind === "schedule" ? (["backfill"] as const) : []),
    "delete",
  ];
  const lacking = lacks("runs:operate");
  return (
    <div class="letter-buttons">
      {verbs.map((verb) => {
        const starts = verb === "fire" || verb === "backfill" ? lacks("runs:start") : undefined;
        const needed = verb === "delete" ? lacks("workflows:write") : (lacking ?? starts);
        const off = (verb === "test" ? undefined : needed) ?? whyNot(verb, trigger);
        return (
          <button
            key={verb}
            type="button"
            class={verb === "fire" ? "strong" : undefined}
            aria-disabled={off !== undefined}
            title={off}
            onClick={() => off === undefined && onAsk({ verb })}
          >
            {words.verbs[verb]}
          </button>
        );
      })}
      {lacking !== undefined && <p class="why-not">{lacking}</p>}
    </div>
  );
}

function Facts({ trigger }: { trigger: Trigger }) {
  const text = words.facts;
  const spec = specOf(trigger);
  const when = whenOf(trigger);
  const isSchedule = trigger.kind === "schedule";
  const skipped = Object.entries(trigger.skipped);
  return (
    <dl class="facts-grid">
      <div>
        <dt>{words.columns.workflow}</dt>
        <dd>
          <a href={href(`/workflows/${encodeURIComponent(trigger.workflow.split("@")[0] ?? "")}`)}>
            <Foreign text={trigger.workflow} />
          </a>
        </dd>
      </div>
      <div>
        <dt>{text.when}</dt>
        <dd>
          {words.kinds[trigger.kind] ?? trigger.kind} {when && <Foreign text={when} className="when" />}{" "}
          {isSchedule && <Foreign text={words.inZone(zoneOf(trigger))} />}
        </dd>
      </div>
      {isSchedule && (
        <div>
          <dt>{words.columns.next}</dt>
          <dd>
            {trigger.state === "active" && trigger.next_at !== null ? (
              <Moment at={trigger.next_at} />
            ) : trigger.state === "paused" ? (
              words.states.paused
            ) : (
              words.none.noMore
            )}
          </dd>
        </div>
      )}
      <div>
        <dt>{words.columns.last}</dt>
        <dd>{trigger.last_at === null ? words.none.never : <Moment at={trigger.last_at} />}</dd>
      </div>
      {trigger.last_success !== null && (
        <div>
          <dt>{text.success}</dt>
          <dd>
            <Moment at={trigger.last_success} />
          </dd>
        </div>
      )}
      {skipped.length > 0 && (
        <div>
          <dt>{text.skipped}</dt>
          <dd>
            {skipped.map(([reason, count]) => text.because(count, words.history.reasons[reason] ?? reason)).join(", ")}
          </dd>
        </div>
      )}
      <div>
        <dt>{text.overlap}</dt>
        <dd>{words.overlaps[spec.overlap] ?? spec.overlap}</dd>
      </div>
      {isSchedule && (
        <div>
          <dt>{text.catchup}</dt>
          <dd>
            {words.catchups[spec.catchup.mode] ?? spec.catchup.mode} {words.within(wholeDuration(spec.catchup.within))}
          </dd>
        </div>
      )}
      {spec.overlap !== "allow" && (
        <div>
          <dt>{text.limits}</dt>
          <dd>
            {words.most(spec.limits.open, spec.limits.buffer)}
            {spec.limits.rate && ` · ${words.rate(spec.limits.rate.limit, wholeDuration(spec.limits.rate.per))}`}
          </dd>
        </div>
      )}
      {spec.key && (
        <div>
          <dt>{text.key}</dt>
          <dd>
            <Foreign text={spec.key} className="id" />
          </dd>
        </div>
      )}
      {!isSchedule && trigger.cursor !== null && (
        <div>
          <dt>{text.cursor}</dt>
          <dd>
            <Json value={trigger.cursor} />
          </dd>
        </div>
      )}
      <div>
        <dt>{text.revision(trigger.revision)}</dt>
        <dd>
          <a href={href(`/runs/${encodeURIComponent(trigger.trigger_id)}`, { tab: "journal" })}>{text.journal}</a>
        </dd>
      </div>
    </dl>
  );
}

const STEP = 5;

/** The coming moments by the clock of the schedule and by that of the reader, with what a change of the clocks does to them. */
function Next({ trigger }: { trigger: Trigger }) {
  const text = words.next;
  const count = useSignal(STEP);
  const { name } = trigger;
  const loaded = useLoad(
    `${name} ${trigger.revision}`,
    (signal) => call("GET /api/v1/triggers/{name}/next", { path: { name }, query: { count: count.value }, signal }),
    // read again when one has passed, or when more are wanted
    (trigger.next_at ?? 0) + count.value,
  );
  const found = loaded.data.value?.items;
  const hasNotes = found?.some((one) => one.note);
  const hasJitter = found?.some((one) => one.due !== one.moment);
  return (
    <section class="stack">
      <h2 id="next-title">{words.sections.next}</h2>
      {trigger.state === "paused" && <p class="why-not">{text.paused}</p>}
      {!found ? (
        loaded.error.value === undefined ? (
          <Loading rows={STEP} />
        ) : (
          <Problem error={loaded.error.value} onRetry={loaded.reload} />
        )
      ) : found.length === 0 ? (
        <p class="soft">{text.none}</p>
      ) : (
        <>
          <div class="scroller" role="group" aria-labelledby="next-title" tabIndex={0}>
            <table class="ops-table" aria-labelledby="next-title">
              <thead>
                <tr>
                  <th scope="col">
                    {text.moment} <Foreign text={zoneOf(trigger)} />
                  </th>
                  <th scope="col">{text.mine}</th>
                  <th scope="col">{text.away}</th>
                  {hasJitter && <th scope="col">{text.jitter}</th>}
                  {hasNotes && <th scope="col">{text.note}</th>}
                </tr>
              </thead>
              <tbody>
                {found.map((one) => (
                  <tr key={one.moment}>
                    <td class="number nowrap">
                      <Foreign text={one.local.replace("T", " ")} />
                    </td>
                    <td class="number nowrap">{shownTime(one.moment, zone.value, now())}</td>
                    <td class="number nowrap">
                      <Away at={one.due} />
                    </td>
                    {hasJitter && <td class="number">{shownDuration(one.due - one.moment)}</td>}
                    {hasNotes && (
                      <td>
                        {one.note && (
                          <span class="flag">
                            <Foreign text={one.note} />
                          </span>
                        )}
                      </td>
                    )}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {found.length >= count.value && count.value < 100 && (
            <button type="button" class="quiet start" onClick={() => (count.value *= 4)}>
              {text.more}
            </button>
          )}
        </>
      )}
    </section>
  );
}

function Away({ at }: { at: number }) {
  return at > now() ? <Duration from={now()} to={at} /> : <Moment at={at} />;
}
