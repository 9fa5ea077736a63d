// One workflow: its graph, its runs, its versions, its aliases, and what it takes.
import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect } from "preact/hooks";
import { addressOf, call, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Plan } from "../../graph/Plan.tsx";
import { CopyButton, Dialog, Duration, Foreign, Loading, Moment, StateMark } from "../../kit/basics.tsx";
import { CopyAs } from "../../kit/CopyAs.tsx";
import { Json } from "../../kit/Json.tsx";
import { Problem } from "../../kit/problem.tsx";
import { SchemaKeys } from "../../kit/SchemaKeys.tsx";
import { change, go, href, place } from "../../router.ts";
import { onKeys } from "../../shell/keys.ts";
import { lacks, readMe } from "../../shell/me.ts";
import { words as all, number } from "../../words/en.ts";
import { words } from "../../words/workflows.ts";
import { Aliases } from "./Aliases.tsx";
import { Versions } from "./Versions.tsx";

const TABS = ["graph", "runs", "versions", "aliases", "inputs"] as const;
type Tab = (typeof TABS)[number];
type Details = Schemas["WorkflowDetails"];

export const pathTo = (name: string, rest = ""): string => `/workflows/${encodeURIComponent(name)}${rest}`;

export default function Workflow({ names }: { names: Readonly<Record<string, string>> }) {
  const name = names.name ?? "";
  const { query } = place.value;
  const version = Number(query.get("version")) || undefined;
  const alias = query.get("alias") ?? undefined;
  useEffect(() => {
    document.title = `${name} · ${all.product}`;
    void readMe();
  }, [name]);
  const loaded = useLoad(`${name} ${version} ${alias}`, (signal) =>
    call("GET /api/v1/workflows/{name}", { path: { name }, query: { version, alias }, signal }),
  );
  const found = loaded.data.value;
  return (
    <section class="screen">
      <div class="crumbs">
        <a href={href("/workflows")}>{words.title}</a>
        <span aria-hidden="true">/</span>
        <Foreign text={name} className="id" />
        <CopyButton text={name} />
      </div>
      {found ? (
        <Page key={name} found={found} />
      ) : (
        <>
          <h1 class="hidden">{name}</h1>
          {loaded.error.value === undefined ? (
            <Loading />
          ) : (
            <Problem error={loaded.error.value} onRetry={loaded.reload} />
          )}
        </>
      )}
    </section>
  );
}

function Page({ found }: { found: Details }) {
  const asked = place.value.query.get("tab") as Tab | null;
  const tab: Tab = asked && TABS.includes(asked) ? asked : "graph";
  const choose = (next: Tab) => change({ tab: next === "graph" ? undefined : next });
  useLayoutEffect(
    () => onKeys(Object.fromEntries(TABS.map((one, index) => [String(index + 1), () => choose(one)]))),
    [],
  );
  return (
    <>
      <Header found={found} />
      <div class="tabs" role="tablist" aria-label={words.tabs.label}>
        {TABS.map((one) => (
          <button
            key={one}
            type="button"
            role="tab"
            id={`tab-${one}`}
            aria-selected={one === tab}
            aria-controls="panel"
            tabIndex={one === tab ? 0 : -1}
            onClick={() => choose(one)}
            onKeyDown={(event) => {
              const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
              if (!step) return;
              event.preventDefault();
              const next = TABS[(TABS.indexOf(one) + step + TABS.length) % TABS.length]!;
              choose(next);
              document.getElementById(`tab-${next}`)?.focus();
            }}
          >
            {words.tabs[one]}
          </button>
        ))}
      </div>
      <div id="panel" role="tabpanel" aria-labelledby={`tab-${tab}`} class="panel">
        {tab === "graph" && <GraphOf found={found} />}
        {tab === "runs" && <RunsOf name={found.name} />}
        {tab === "versions" && <Versions name={found.name} />}
        {tab === "aliases" && <Aliases name={found.name} newest={found.version} />}
        {tab === "inputs" && <InputsOf found={found} />}
      </div>
    </>
  );
}

function Header({ found }: { found: Details }) {
  const removing = useSignal(false);
  const description = found.definition.description;
  const noWrite = lacks("workflows:write");
  const noStart = lacks("runs:start");
  const noDelete = lacks("workflows:delete");
  return (
    <header class="run-head">
      <div class="head">
        <div class="run-title">
          <h1>
            <Foreign text={found.name} />
            <span class="soft">@{number(found.version)}</span>
          </h1>
        </div>
        <div class="bar">
          <Way to={pathTo(found.name, "/start")} why={noStart} primary>
            {words.start}
          </Way>
          <Way to={pathTo(found.name, "/edit")} why={noWrite}>
            {words.edit}
          </Way>
          <a
            class="button wide-only"
            href={addressOf("GET /api/v1/workflows/{name}/definition.yaml", {
              path: { name: found.name },
              query: { version: found.version },
            })}
            download={`${found.name.replaceAll(/[^A-Za-z0-9._-]/g, "_")}.yaml`}
          >
            {words.download}
          </a>
          <button
            type="button"
            disabled={noDelete !== undefined}
            title={noDelete}
            onClick={() => (removing.value = true)}
          >
            {words.remove}
          </button>
        </div>
      </div>
      {typeof description === "string" && description && (
        <p>
          <Foreign text={description} />
        </p>
      )}
      <dl class="facts">
        <div>
          <dt>{words.registered}</dt>
          <dd>
            <Moment at={found.registered_at} />
          </dd>
        </div>
        <div>
          <dt>{words.by}</dt>
          <dd>
            <Foreign text={found.by} />
          </dd>
        </div>
        <div>
          <dt>{words.reason}</dt>
          <dd>{found.reason ? <Foreign text={found.reason} /> : <span class="soft">{words.noReason}</span>}</dd>
        </div>
        <div>
          <dt>{words.hash}</dt>
          <dd>
            <code>{found.hash.slice(0, 12)}</code>
          </dd>
        </div>
      </dl>
      {removing.value && <Removal name={found.name} onClose={() => (removing.value = false)} />}
    </header>
  );
}

interface WayGiven {
  to: string;
  why: string | undefined;
  primary?: boolean;
  children: preact.ComponentChildren;
}

/** A link that looks like a button; where it may not be followed, a button that says why. */
export function Way({ to, why, primary, children }: WayGiven) {
  const look = primary ? "button primary" : "button";
  if (why === undefined)
    return (
      <a class={look} href={href(to)}>
        {children}
      </a>
    );
  return (
    <button type="button" class={primary ? "primary" : ""} disabled title={why}>
      {children}
    </button>
  );
}

function GraphOf({ found }: { found: Details }) {
  const loaded = useLoad(`${found.name} ${found.version}`, (signal) =>
    call("GET /api/v1/workflows/{name}/graph", {
      path: { name: found.name },
      query: { version: found.version },
      signal,
    }),
  );
  const node = place.value.query.get("node") ?? "";
  const nodes = (found.definition.nodes ?? []) as readonly Record<string, unknown>[];
  const chosen = nodes.find((one) => one.id === node);
  if (loaded.error.value !== undefined) return <Problem error={loaded.error.value} onRetry={loaded.reload} />;
  if (!loaded.data.value) return <Loading rows={6} />;
  return (
    <>
      <Plan graph={loaded.data.value} label={words.graph} chosen={node} onChoose={(id) => change({ node: id })} />
      {chosen && (
        <section class="card">
          <h2>
            <Foreign text={node} />
          </h2>
          <Json value={chosen} copy />
        </section>
      )}
    </>
  );
}

function RunsOf({ name }: { name: string }) {
  const loaded = useLoad(name, (signal) =>
    call("GET /api/v1/runs", { query: { workflow: name, limit: 50, children: true }, signal }),
  );
  if (loaded.error.value !== undefined) return <Problem error={loaded.error.value} onRetry={loaded.reload} />;
  const found = loaded.data.value;
  if (!found) return <Loading rows={6} />;
  if (!found.items.length) return <p class="nothing soft">{words.runs.none}</p>;
  const columns = all.runs.columns;
  return (
    <>
      <table class="plain-table own-runs">
        <thead>
          <tr>
            <th scope="col">{columns.state}</th>
            <th scope="col">{columns.id}</th>
            <th scope="col" class="wide-only">
              {words.version}
            </th>
            <th scope="col">{columns.started}</th>
            <th scope="col" class="wide-only">
              {columns.duration}
            </th>
          </tr>
        </thead>
        <tbody>
          {found.items.map((run) => (
            <tr key={run.run_id}>
              <td>
                <StateMark state={run.state} waiting={run.waiting} />
              </td>
              <td class="cut-id">
                <a href={href(`/runs/${encodeURIComponent(run.run_id)}`)} aria-label={all.runs.open(run.run_id)}>
                  <Foreign text={run.run_id} className="id" />
                </a>
              </td>
              <td class="number wide-only">{run.version ? number(run.version) : all.runs.unregistered}</td>
              <td>
                <Moment at={run.started_at ?? run.created_at} />
              </td>
              <td class="wide-only">
                <Duration from={run.started_at} to={run.ended_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p>
        <a href={href("/runs", { workflow: name, children: "1" })}>{words.runs.all}</a>
      </p>
    </>
  );
}

function InputsOf({ found }: { found: Details }) {
  const schema = found.definition.inputs;
  if (schema === undefined || schema === null) return <p class="nothing soft">{words.noInputs}</p>;
  return (
    <section class="card">
      <SchemaKeys schema={schema} label={words.tabs.inputs} asked />
    </section>
  );
}

function Removal({ name, onClose }: { name: string; onClose: () => void }) {
  const text = words.removal;
  const error = useSignal<unknown>(undefined);
  const users = useLoad(name, (signal) =>
    call("GET /api/v1/workflows/{name}/users", { path: { name }, query: { limit: 10 }, signal }),
  );
  const used = users.data.value;
  const remove = async () => {
    try {
      await call("DELETE /api/v1/workflows/{name}", { path: { name } });
      go(href("/workflows"));
    } catch (caught) {
      error.value = caught;
    }
  };
  return (
    <Dialog title={text.title(name)} onClose={onClose}>
      <div class="stack">
        <p>{text.text}</p>
        {users.error.value !== undefined && <Problem error={users.error.value} onRetry={users.reload} />}
        {used && used.count > 0 && (
          <>
            <p>{text.users(used.count)}</p>
            <ul>
              {used.items.map((run) => (
                <li key={run.run_id}>
                  <a href={href(`/runs/${encodeURIComponent(run.run_id)}`)}>
                    <Foreign text={run.run_id} className="id" />
                  </a>
                </li>
              ))}
            </ul>
          </>
        )}
        {used?.count === 0 && <p class="soft">{text.free}</p>}
        {error.value !== undefined && <Problem error={error.value} />}
        <CopyAs
          doing={{
            method: "DELETE",
            path: `/api/v1${pathTo(name)}`,
            python: ["workflows.delete", [name], {}],
          }}
        />
        <button type="button" class="danger" disabled={used?.count !== 0} onClick={remove}>
          {text.done}
        </button>
      </div>
    </Dialog>
  );
}
