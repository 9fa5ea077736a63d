// The first screen: what needs a person now, how runs did lately, and the newest of them.
import { useEffect } from "preact/hooks";
import { usePoll } from "../../api/poll.ts";
import { Command, Duration, Empty, Foreign, Loading, Moment, StateMark } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { shownDuration } from "../../kit/time.ts";
import { href, place } from "../../router.ts";
import { type Overview, readOverview, type Span } from "../../shell/overview.ts";
import { number, words } from "../../words/en.ts";
import { home as text } from "../../words/home.ts";
import { Activity } from "./Activity.tsx";
import { Needs } from "./Needs.tsx";

const POLL_SECONDS = 5;

export function readSpan(query: URLSearchParams): Span {
  const given = query.get("span") ?? "";
  return given in text.spans ? (given as Span) : "24h";
}

export default function Home(_: { names: Readonly<Record<string, string>> }) {
  const span = readSpan(place.value.query);
  const found = usePoll(span, POLL_SECONDS, (signal) => readOverview(span, signal));
  useEffect(() => {
    document.title = `${text.title} · ${words.product}`;
  }, []);
  const data = found.data.value;
  return (
    <section class="screen home">
      <h1>{text.title}</h1>
      {data ? (
        <Body data={data} span={span} />
      ) : found.error.value === undefined ? (
        <Loading rows={8} />
      ) : (
        <Problem error={found.error.value} onRetry={found.retry} />
      )}
    </section>
  );
}

function Body({ data, span }: { data: Overview; span: Span }) {
  if (data.newest.length === 0 && data.failed !== null) return <Nothing />;
  return (
    <>
      <Needs data={data} />
      {data.failed !== null && (
        <>
          <Activity buckets={data.buckets} span={span} />
          <div class="pair">
            <Failing found={data.failing} span={span} />
            <Slowest found={data.slowest} capped={data.capped} />
          </div>
          <Newest runs={data.newest} />
        </>
      )}
    </>
  );
}

function Nothing() {
  return (
    <Empty title={words.runs.empty.title}>
      <p>{words.runs.empty.text}</p>
      <Command text={words.runs.empty.command} />
    </Empty>
  );
}

const toWorkflow = (name: string) => href(`/workflows/${encodeURIComponent(name)}`);

function Failing({ found, span }: { found: Overview["failing"]; span: Span }) {
  const most = Math.max(1, ...found.map((one) => one.failed));
  return (
    <section class="card" aria-labelledby="failing">
      <h2 id="failing">{text.failing}</h2>
      {found.length === 0 ? (
        <p class="soft">{text.noFailing}</p>
      ) : (
        <ul class="ranks" data-group="bad">
          {found.map((one) => (
            <li key={one.workflow}>
              <a href={href("/runs", { state: "failed", workflow: one.workflow, since: span, "by-end": "1" })}>
                <Foreign text={one.workflow} />
              </a>
              <span class="number">{text.ofEnded(one.failed, one.ended)}</span>
              <span class="rank" style={{ inlineSize: `${(100 * one.failed) / most}%` }} />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function Slowest({ found, capped }: { found: Overview["slowest"]; capped: boolean }) {
  const most = Math.max(0.001, ...found.map((one) => one.p95_seconds));
  return (
    <section class="card" aria-labelledby="slowest">
      <h2 id="slowest">
        {text.slowest} <span class="soft plain">{text.slowestHint}</span>
      </h2>
      {found.length === 0 ? (
        <p class="soft">{text.noSlowest}</p>
      ) : (
        <ul class="ranks" data-group="busy">
          {found.map((one) => (
            <li key={one.workflow}>
              <a href={toWorkflow(one.workflow)}>
                <Foreign text={one.workflow} />
              </a>
              <span class="number">{shownDuration(one.p95_seconds)}</span>
              <span class="rank" style={{ inlineSize: `${(100 * one.p95_seconds) / most}%` }} />
            </li>
          ))}
        </ul>
      )}
      {capped && <p class="soft small">{text.slowestCapped}</p>}
    </section>
  );
}

function Newest({ runs }: { runs: Overview["newest"] }) {
  return (
    <section class="newest" aria-labelledby="newest">
      <div class="head">
        <h2 id="newest">{text.newest}</h2>
        <a href={href("/runs")}>{text.all}</a>
      </div>
      <table class="runs-table" aria-labelledby="newest">
        <thead>
          <tr>
            <th scope="col" class="c-state">
              {words.runs.columns.state}
            </th>
            <th scope="col" class="c-workflow">
              {words.runs.columns.workflow}
            </th>
            <th scope="col" class="c-id">
              {words.runs.columns.id}
            </th>
            <th scope="col" class="c-started">
              {words.runs.columns.started}
            </th>
            <th scope="col" class="c-duration">
              {words.runs.columns.duration}
            </th>
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <tr key={run.run_id} class="row">
              <td class="c-state">
                <StateMark state={run.quarantined ? "quarantined" : run.state} waiting={run.waiting} />
              </td>
              <td class="c-workflow">
                <Foreign text={run.workflow} />
                {run.version > 0 && <span class="soft">@{number(run.version)}</span>}
              </td>
              <td class="c-id">
                <a href={href(`/runs/${encodeURIComponent(run.run_id)}`)} aria-label={words.runs.open(run.run_id)}>
                  <Foreign text={run.run_id} className="id" />
                </a>
              </td>
              <td class="c-started">
                <Moment at={run.started_at ?? run.created_at} />
              </td>
              <td class="c-duration">
                <Duration from={run.started_at} to={run.ended_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
