// Two versions of a workflow side by side: as two graphs with marks, and path by path.
import { useEffect } from "preact/hooks";
import { call, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Plan } from "../../graph/Plan.tsx";
import { Foreign, Loading } from "../../kit/basics.tsx";
import { Json } from "../../kit/Json.tsx";
import { Problem } from "../../kit/problem.tsx";
import { change, href, place } from "../../router.ts";
import { words as all } from "../../words/en.ts";
import { words } from "../../words/workflows.ts";
import { pathTo } from "./Workflow.tsx";

type Changes = Schemas["DefinitionChanges"];
type Difference = Schemas["Difference"];

export function marksOf(changes: Changes): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const node of changes.added) found.set(node, "added");
  for (const node of changes.removed) found.set(node, "removed");
  for (const node of Object.keys(changes.changed)) found.set(node, "changed");
  return found;
}

export default function Diff({ names }: { names: Readonly<Record<string, string>> }) {
  const name = names.name ?? "";
  const before = place.value.query.get("before") ?? "1";
  const after = place.value.query.get("after") ?? "latest";
  const text = words.diff;
  useEffect(() => {
    document.title = `${text.title(name)} · ${all.product}`;
  }, [name]);
  const loaded = useLoad(`${name} ${before} ${after}`, async (signal) => {
    const path = { name };
    const diff = await call("GET /api/v1/workflows/{name}/diff", { path, query: { before, after }, signal });
    const graphOf = (version: number) =>
      call("GET /api/v1/workflows/{name}/graph", { path, query: { version, direction: "down" }, signal });
    const [old, young] = await Promise.all([graphOf(diff.before), graphOf(diff.after)]);
    return { diff, old, young, marks: marksOf(diff) };
  });
  const found = loaded.data.value;
  return (
    <section class="screen">
      <div class="crumbs">
        <a href={href("/workflows")}>{words.title}</a>
        <span aria-hidden="true">/</span>
        <a href={href(pathTo(name), { tab: "versions" })}>
          <Foreign text={name} className="id" />
        </a>
      </div>
      <div class="head">
        <h1>
          <Foreign text={text.title(name)} />
        </h1>
        <button type="button" onClick={() => change({ before: after, after: before })}>
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
            <section>
              <h2>
                {text.before}: {words.versionOf(found.diff.before)}
              </h2>
              <Plan alone graph={found.old} marks={found.marks} label={`${words.graph}, ${text.before}`} />
            </section>
            <section>
              <h2>
                {text.after}: {words.versionOf(found.diff.after)}
              </h2>
              <Plan alone graph={found.young} marks={found.marks} label={`${words.graph}, ${text.after}`} />
            </section>
          </div>
          <ChangeList changes={found.diff} />
        </>
      )}
    </section>
  );
}

/** The changes in words: what came, what went, and what differs, path by path. */
export function ChangeList({ changes }: { changes: Changes }) {
  const text = words.diff;
  const changed = Object.entries(changes.changed);
  const lists = [
    [text.added, changes.added],
    [text.removed, changes.removed],
    [text.edgesAdded, changes.edges_added],
    [text.edgesRemoved, changes.edges_removed],
  ] as const;
  if (!changed.length && !changes.workflow.length && lists.every(([, names]) => !names.length))
    return <p class="soft">{text.same}</p>;
  return (
    <div class="stack changes">
      {lists.map(([title, names]) =>
        names.length ? (
          <section key={title} class="card">
            <h2>{title}</h2>
            <ul>
              {names.map((one) => (
                <li key={one}>
                  <Foreign text={one.replace(" -> ", " → ")} className="id" />
                </li>
              ))}
            </ul>
          </section>
        ) : null,
      )}
      {changed.map(([node, differences]) => (
        <Differences key={node} title={node} differences={differences} />
      ))}
      {changes.workflow.length > 0 && <Differences title={text.workflow} differences={changes.workflow} />}
    </div>
  );
}

function Differences({ title, differences }: { title: string; differences: readonly Difference[] }) {
  const text = words.diff;
  return (
    <section class="card">
      <h2>
        <Foreign text={title} /> <span class="soft plain">{text.changed}</span>
      </h2>
      <ul class="paths">
        {differences.map((one) => (
          <li key={one.path}>
            <code>
              <Foreign text={one.path} />
            </code>
            {one.before !== undefined && (
              <div class="then">
                <span class="soft">{text.was}</span> <Json value={one.before} />
              </div>
            )}
            {one.after !== undefined && (
              <div class="then">
                <span class="soft">{text.is}</span> <Json value={one.after} />
              </div>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
