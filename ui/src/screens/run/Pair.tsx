// Two runs side by side: their graphs with the nodes that differ marked, and every difference by its path.
import { useEffect } from "preact/hooks";
import { call, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Plan } from "../../graph/Plan.tsx";
import { Foreign, Loading, Moment, StateMark } from "../../kit/basics.tsx";
import { Json } from "../../kit/Json.tsx";
import { Problem } from "../../kit/problem.tsx";
import { go, href } from "../../router.ts";
import { number, words } from "../../words/en.ts";
import { papers } from "../../words/papers.ts";

type Difference = Schemas["Difference"];
type Run = Schemas["Run"];
type Graph = Schemas["Graph"];

async function read(first: string, second: string, signal: AbortSignal) {
  const path = { run_id: first };
  const diff = await call("GET /api/v1/runs/{run_id}/diff", { path, query: { other: second }, signal });
  const of = (run_id: string) =>
    Promise.all([
      call("GET /api/v1/runs/{run_id}", { path: { run_id }, query: { outputs: false }, signal }),
      // A run whose definition is gone is compared without its picture.
      call("GET /api/v1/runs/{run_id}/graph", { path: { run_id }, query: { direction: "down" }, signal }).catch(
        (error: unknown) => {
          if (signal.aborted) throw error;
          return undefined;
        },
      ),
    ]);
  const [one, two] = await Promise.all([of(first), of(second)]);
  return { diff, one, two };
}

/** What is said of a node: that it is in one of the runs alone, or not the same in both. */
export function marksOf(nodes: Readonly<Record<string, readonly Difference[]>>): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [node, changes] of Object.entries(nodes)) {
    const whole = changes.length === 1 && changes[0]?.path === "" ? changes[0] : undefined;
    found.set(node, whole?.before === null ? "added" : whole?.after === null ? "removed" : "changed");
  }
  return found;
}

export default function Pair({ first, second }: { first: string; second: string }) {
  const text = papers.pair;
  useEffect(() => {
    document.title = `${text.title} · ${words.product}`;
  }, []);
  const loaded = useLoad(`${first} ${second}`, (signal) => read(first, second, signal));
  const found = loaded.data.value;
  return (
    <section class="screen">
      <div class="crumbs">
        <a href={href("/runs")}>{words.run.back}</a>
        <span aria-hidden="true">/</span>
        <a href={href(`/runs/${encodeURIComponent(first)}`)}>
          <Foreign text={first} className="id" />
        </a>
      </div>
      <div class="head">
        <h1>{text.title}</h1>
        <button
          type="button"
          onClick={() => go(href(`/runs/${encodeURIComponent(second)}`, { compare: first }), { replace: true })}
        >
          {text.swap}
        </button>
      </div>
      {loaded.error.value !== undefined ? (
        <Problem error={loaded.error.value} onRetry={loaded.reload} />
      ) : !found ? (
        <Loading />
      ) : (
        <>
          <div class="side-by-side">
            <Side run={found.one[0]} graph={found.one[1]} marks={marksOf(found.diff.nodes)} label={text.first} />
            <Side run={found.two[0]} graph={found.two[1]} marks={marksOf(found.diff.nodes)} label={text.second} />
          </div>
          <Differences diff={found.diff} />
        </>
      )}
    </section>
  );
}

interface SideGiven {
  run: Run;
  graph: Graph | undefined;
  marks: ReadonlyMap<string, string>;
  label: string;
}

function Side({ run, graph, marks, label }: SideGiven) {
  return (
    <section class="side">
      <h2>
        {label}: <Foreign text={run.workflow} />
        <span class="soft">{run.version ? `@${number(run.version)}` : ` ${words.runs.unregistered}`}</span>
      </h2>
      <p class="side-facts">
        <StateMark state={run.state} waiting={run.waiting ?? false} />
        <a href={href(`/runs/${encodeURIComponent(run.run_id)}`)}>
          <Foreign text={run.run_id} className="id" />
        </a>
        <span class="soft">
          <Moment at={run.started_at ?? run.created_at} />
        </span>
      </p>
      {graph ? (
        <Plan alone graph={graph} marks={marks} label={label} />
      ) : (
        <p class="soft">{words.run.graph.unavailable}</p>
      )}
    </section>
  );
}

function Differences({ diff }: { diff: Schemas["RunDiff"] }) {
  const text = papers.pair;
  const nodes = Object.entries(diff.nodes);
  if (diff.run.length + nodes.length === 0) return <p class="soft">{text.same}</p>;
  return (
    <div class="stack changes">
      <h2>{text.differences(nodes.length)}</h2>
      {diff.run.length > 0 && <Part title={words.run.compare.run} changes={diff.run} />}
      {nodes.map(([node, changes]) => (
        <Part key={node} title={node} changes={changes} />
      ))}
    </div>
  );
}

function Part({ title, changes }: { title: string; changes: readonly Difference[] }) {
  const text = papers.pair;
  return (
    <section class="card">
      <h3>
        <Foreign text={title} />
      </h3>
      <div class="scroller">
        <table class="plain-table paths-table">
          <thead>
            <tr>
              <th scope="col">{text.path}</th>
              <th scope="col">{text.first}</th>
              <th scope="col">{text.second}</th>
            </tr>
          </thead>
          <tbody>
            {changes.map((one) => (
              <tr key={one.path}>
                <td>
                  <code>
                    <Foreign text={one.path || "/"} />
                  </code>
                </td>
                <td>
                  <Value value={one.before} omitted={one.omitted ?? false} />
                </td>
                <td>
                  <Value value={one.after} omitted={one.omitted ?? false} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Value({ value, omitted }: { value: unknown; omitted: boolean }) {
  if (omitted && value === null) return <span class="soft">{papers.pair.omitted}</span>;
  if (value === undefined || value === null) return <span class="soft">{papers.pair.none}</span>;
  return <Json value={value} />;
}
