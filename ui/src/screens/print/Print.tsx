// A run on paper: everything that somebody who was not there needs, black on white.
import { useEffect } from "preact/hooks";
import { addressOf, call, type Schemas, send } from "../../api/call.ts";
import { print as printed } from "../../api/exact.ts";
import { useLoad } from "../../api/load.ts";
import { CopyButton, Duration, Foreign, Loading } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { cut } from "../../kit/text.ts";
import { exactTime, zone } from "../../kit/time.ts";
import { href, place } from "../../router.ts";
import { number, words } from "../../words/en.ts";
import { papers } from "../../words/papers.ts";

const EVENTS = 500;
const VALUE = 2000;
const PAGES = 100;
/** Larger exports are not read for their hash. */
const MOST_HASHED = 20_000;

type Run = Schemas["Run"];
type NodeItem = Schemas["NodeItem"];
type Approval = Schemas["Approval"];
type RunEvent = Schemas["Event"];

interface Paper {
  readonly run: Run;
  readonly nodes: readonly NodeItem[];
  readonly approvals: readonly Approval[];
  readonly events: readonly RunEvent[];
  readonly last: number;
  readonly hash: string | undefined;
}

async function readNodes(run_id: string, signal: AbortSignal): Promise<NodeItem[]> {
  const found: NodeItem[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < PAGES; page++) {
    const query = { outputs: true, limit: 1000, cursor };
    const next = await call("GET /api/v1/runs/{run_id}/nodes", { path: { run_id }, query, signal });
    found.push(...next.items);
    if (next.next_cursor === null) break;
    cursor = next.next_cursor;
  }
  return found;
}

/** Of the file that an export gives; undefined where the browser has no hashes, as without TLS on other machines. */
async function hashOf(run_id: string, last: number, signal: AbortSignal): Promise<string | undefined> {
  if (!globalThis.crypto?.subtle || last > MOST_HASHED) return undefined;
  const address = addressOf("GET /api/v1/runs/{run_id}/export", { path: { run_id } });
  const response = await send(address, { headers: { "X-Perdure-Request": "1" }, signal });
  if (!response.ok) return undefined;
  const digest = await crypto.subtle.digest("SHA-256", await response.arrayBuffer());
  return [...new Uint8Array(digest)].map((one) => one.toString(16).padStart(2, "0")).join("");
}

async function read(run_id: string, at: number | undefined, signal: AbortSignal): Promise<Paper> {
  const path = { run_id };
  const run =
    at === undefined
      ? await call("GET /api/v1/runs/{run_id}", { path, query: {}, signal })
      : await call("GET /api/v1/runs/{run_id}/state", { path, query: { at }, signal });
  const nodes =
    at === undefined
      ? await readNodes(run_id, signal)
      : Object.entries(run.nodes).map(([node, view]) => ({ ...view, node }) as NodeItem);
  const book = await call("GET /api/v1/runs/{run_id}/events", { path, query: { limit: EVENTS }, signal });
  const asked = await call("GET /api/v1/approvals", { query: { run_id, limit: 1000 }, signal }).catch(
    (error: unknown) => {
      if (signal.aborted) throw error;
      return { items: [] as Approval[] }; // who may not read approvals prints without them
    },
  );
  const last = book.last_seq ?? book.items.length;
  const events = at === undefined ? book.items : book.items.filter((one) => one.seq <= at);
  return { run, nodes, approvals: asked.items, events, last: at ?? last, hash: await hashOf(run_id, last, signal) };
}

export default function Print({ names }: { names: Readonly<Record<string, string>> }) {
  const runId = names.run_id ?? "";
  const given = Number(place.value.query.get("at") ?? "");
  const at = Number.isInteger(given) && given > 0 ? given : undefined;
  const loaded = useLoad(`${runId} ${at}`, (signal) => read(runId, at, signal));
  useEffect(() => {
    document.title = `${runId} · ${words.product}`;
  }, [runId]);
  const found = loaded.data.value;
  if (!found)
    return (
      <section class="screen">
        <h1 class="hidden">{words.run.title(runId)}</h1>
        {loaded.error.value === undefined ? (
          <Loading />
        ) : (
          <Problem error={loaded.error.value} onRetry={loaded.reload} />
        )}
      </section>
    );
  const text = papers.print;
  return (
    <section class="screen">
      <div class="bar no-paper">
        <a class="button" href={href(`/runs/${encodeURIComponent(runId)}`)}>
          {text.back}
        </a>
        <button type="button" class="primary" onClick={() => print()}>
          {text.print}
        </button>
        <CopyButton text={toMarkdown(found)} label={text.markdown} />
        <a
          class="button"
          href={addressOf("GET /api/v1/runs/{run_id}/export", { path: { run_id: runId } })}
          download={fileOf(runId)}
        >
          {text.export}
        </a>
      </div>
      <Sheets paper={found} at={at} />
    </section>
  );
}

const fileOf = (runId: string): string => `${runId.replaceAll(/[^A-Za-z0-9._-]/g, "_").slice(0, 100)}.json`;
const time = (at: number | null | undefined): string =>
  at === null || at === undefined ? papers.print.none : exactTime(at, zone.value).split(" · ")[0]!;

function Sheets({ paper, at }: { paper: Paper; at: number | undefined }) {
  const { run } = paper;
  const text = papers.print;
  const facts = words.run.facts;
  const picture = addressOf("GET /api/v1/runs/{run_id}/graph.svg", { path: { run_id: run.run_id }, query: { at } });
  return (
    <article class="paper">
      <header>
        <h1>
          <Foreign text={run.workflow} />
          {run.version ? `@${number(run.version)}` : ` ${words.runs.unregistered}`}
        </h1>
        <p>
          <Foreign text={run.run_id} className="id" />
        </p>
        {at !== undefined && <p>{text.at(at)}</p>}
        <dl class="facts">
          <Fact name={text.state} value={words.states[run.state] ?? run.state} />
          <Fact name={facts.by} value={run.submitted_by ?? text.none} />
          <Fact name={facts.started} value={time(run.started_at ?? run.created_at)} />
          <Fact name={facts.ended} value={time(run.ended_at)} />
          <Fact name={facts.generation} value={number(run.generation)} />
          {Object.entries(run.tags).map(([name, value]) => (
            <Fact key={name} name={name} value={value} />
          ))}
        </dl>
      </header>
      <img class="picture" src={picture} alt={words.run.graph.label} />
      <h2>{text.nodes}</h2>
      <div class="scroller" role="group" aria-label={text.nodes} tabIndex={0}>
        <NodeTable nodes={paper.nodes} />
      </div>
      <Approvals approvals={paper.approvals} />
      <Errors run={run} nodes={paper.nodes} />
      <h2>{text.values}</h2>
      <Value name={words.run.values.inputs} value={run.inputs} />
      {run.outputs !== null && run.outputs !== undefined && (
        <Value name={words.run.values.outputs} value={run.outputs} />
      )}
      {paper.nodes
        .filter((one) => one.output !== undefined)
        .map((one) => (
          <Value key={one.node} name={one.node} value={one.output} />
        ))}
      <h2 class="new-page">{text.journal}</h2>
      <JournalTable events={paper.events} last={paper.last} />
      <footer>
        {paper.hash && (
          <p>
            {text.hash} <code>{paper.hash}</code>
          </p>
        )}
      </footer>
    </article>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>
        <Foreign text={name} />
      </dt>
      <dd>
        <Foreign text={value} />
      </dd>
    </div>
  );
}

function NodeTable({ nodes }: { nodes: readonly NodeItem[] }) {
  const { columns } = papers.print;
  return (
    <table class="plain-table">
      <thead>
        <tr>
          {[columns.node, columns.state, columns.attempt, columns.started, columns.ended, columns.took].map((one) => (
            <th key={one} scope="col">
              {one}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {nodes.map((one) => (
          <tr key={one.node}>
            <td>
              <Foreign text={one.node} />
            </td>
            <td>{words.states[one.state] ?? one.state}</td>
            <td class="number">{number(one.attempt)}</td>
            <td class="number">{time(one.started_at)}</td>
            <td class="number">{time(one.ended_at)}</td>
            <td>{one.started_at && one.ended_at ? <Duration from={one.started_at} to={one.ended_at} /> : null}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Approvals({ approvals }: { approvals: readonly Approval[] }) {
  const text = papers.print;
  if (approvals.length === 0) return null;
  return (
    <>
      <h2>{text.approvals}</h2>
      <ul>
        {approvals.map((one) => (
          <li key={one.approval_id}>
            <strong>
              <Foreign text={one.node} />
            </strong>
            : <Foreign text={approvalLine(one)} />
          </li>
        ))}
      </ul>
    </>
  );
}

const approvalLine = (one: Approval): string =>
  papers.print.approval(
    one.approvers,
    Object.entries(one.votes),
    time(one.requested_at),
    one.decided_at === null ? undefined : time(one.decided_at),
    one.comments,
  );

function Errors({ run, nodes }: { run: Run; nodes: readonly NodeItem[] }) {
  const failed = nodes.filter((one) => one.error);
  if (!run.error && failed.length === 0) return null;
  return (
    <>
      <h2>{papers.print.errors}</h2>
      {run.error && <Value name={words.run.compare.run} value={run.error} />}
      {failed.map((one) => (
        <Value key={one.node} name={one.node} value={one.error} />
      ))}
    </>
  );
}

function Value({ name, value }: { name: string; value: unknown }) {
  const all = printed(value);
  return (
    <section class="paper-value">
      <h3>
        <Foreign text={name} />
      </h3>
      <pre>
        <Foreign text={cut(all, VALUE)} />
      </pre>
      {all.length > VALUE && <p>{papers.print.cut(all.length)}</p>}
    </section>
  );
}

function JournalTable({ events, last }: { events: readonly RunEvent[]; last: number }) {
  const text = words.run.journal;
  return (
    <>
      <div class="scroller" role="group" aria-label={papers.print.journal} tabIndex={0}>
        <table class="plain-table">
          <thead>
            <tr>
              <th scope="col">{text.seq}</th>
              <th scope="col">{text.time}</th>
              <th scope="col">{text.type}</th>
              <th scope="col">{text.node}</th>
            </tr>
          </thead>
          <tbody>
            {events.map((one) => (
              <tr key={one.seq}>
                <td class="number">{number(one.seq)}</td>
                <td class="number">{time(one.at)}</td>
                <td>
                  <code>{one.type}</code>
                </td>
                <td>{one.node && <Foreign text={one.node} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {last > events.length && <p>{papers.print.more(last - events.length)}</p>}
    </>
  );
}

/** One line of a table: what would end a cell or be taken for markup is escaped. */
const cell = (text: string): string =>
  cut(text, 300)
    .replaceAll(/[\\|<>*_`[\]]/g, "\\$&")
    .replaceAll(/\s+/g, " ");

export function toMarkdown({ run, nodes, approvals }: Paper): string {
  const text = papers.print;
  const lines = [
    `# ${cell(run.workflow)}${run.version ? `@${run.version}` : ""}`,
    "",
    `${cell(run.run_id)}: ${words.states[run.state] ?? run.state}, ${time(run.started_at ?? run.created_at)}`,
    "",
    `| ${text.columns.node} | ${text.columns.state} | ${text.columns.attempt} | ${text.columns.started} | ${text.columns.ended} |`,
    "|---|---|---|---|---|",
    ...nodes.map(
      (one) =>
        `| ${cell(one.node)} | ${words.states[one.state] ?? one.state} | ${one.attempt} | ${time(one.started_at)} | ${time(one.ended_at)} |`,
    ),
    "",
    ...approvals.map((one) => `- ${cell(one.node)}: ${cell(approvalLine(one))}`),
    ...(run.error ? ["", `${text.errors}: ${cell(`${run.error.code} ${run.error.message ?? ""}`)}`] : []),
  ];
  return `${lines.join("\n").trimEnd()}\n`;
}
