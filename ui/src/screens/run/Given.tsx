// What a node was given, what it still lacks, and how it is defined: read when it is opened.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { call } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Foreign, Loading, StateMark } from "../../kit/basics.tsx";
import { Json } from "../../kit/Json.tsx";
import { Problem } from "../../kit/problem.tsx";
import { change, href } from "../../router.ts";
import { node as words } from "../../words/node.ts";
import type { RunStore } from "./store.ts";

interface About {
  readonly store: RunStore;
  readonly node: string;
}

function Fold({ title, children }: { title: string; children: ComponentChildren }) {
  const open = useSignal(false);
  return (
    <details class="fold-part" onToggle={(event) => (open.value = event.currentTarget.open)}>
      <summary>{title}</summary>
      {open.value && children}
    </details>
  );
}

interface Which extends About {
  readonly visit: number | undefined;
  /** Of a map: which of its items. */
  readonly item?: number;
}

/** What it was given, of one visit or of the newest. */
export function Input(about: Which) {
  return (
    <Fold title={words.input}>
      <Sent {...about} />
    </Fold>
  );
}

function Sent({ store, node, visit, item }: Which) {
  const at = store.at.value;
  const found = useLoad(`${node} ${visit} ${item} ${at ?? store.nodes.value.get(node)?.attempt}`, (signal) =>
    call("GET /api/v1/runs/{run_id}/nodes/{node}/input", {
      path: { run_id: store.runId, node },
      query: { at, visit, item },
      signal,
    }),
  );
  const input = found.data.value;
  if (found.error.value !== undefined) return <Problem error={found.error.value} onRetry={found.reload} />;
  if (!input) return <Loading rows={2} />;
  return (
    <>
      {input.problem && (
        <p class="soft">
          <Foreign text={input.problem} />
        </p>
      )}
      {input.config !== null && input.config !== undefined && (
        <>
          <h4>{words.config}</h4>
          <Json value={input.config} copy />
        </>
      )}
      {input.inputs !== null && input.inputs !== undefined && (
        <>
          <h4>{words.inputs}</h4>
          <Json value={input.inputs} copy />
        </>
      )}
    </>
  );
}

export function Definition(about: About) {
  return (
    <Fold title={words.definition}>
      <Defined {...about} />
    </Fold>
  );
}

function Defined({ store, node }: About) {
  const at = store.at.value;
  const found = useLoad(`${store.runId} ${at} ${store.run.value?.patches}`, (signal) =>
    call("GET /api/v1/runs/{run_id}/definition", { path: { run_id: store.runId }, query: { at }, signal }),
  );
  if (found.error.value !== undefined) return <Problem error={found.error.value} onRetry={found.reload} />;
  if (!found.data.value) return <Loading rows={2} />;
  const nodes = found.data.value.definition?.nodes;
  const own = Array.isArray(nodes) ? nodes.find((one: { id?: unknown }) => one.id === node) : undefined;
  return own ? <Json value={own} copy /> : <p class="soft">{words.noDefinition}</p>;
}

/** The runs that it started, one for each visit: their ids begin with the run and the node. */
export function ChildRuns({ store, node }: About) {
  const before = `${store.runId}:${node}`;
  const found = useLoad(`${before} ${store.readings.value}`, (signal) =>
    call("GET /api/v1/runs", { query: { parent: store.runId, id: before, limit: 50 }, signal }),
  );
  const isOwn = (id: string) => id === before || id.startsWith(`${before}~`) || id.startsWith(`${before}:`);
  const runs = found.data.value?.items.filter((one) => isOwn(one.run_id));
  if (!runs?.length) return null;
  return (
    <section>
      <h3>{words.children}</h3>
      {runs.map((one) => (
        <p key={one.run_id}>
          <StateMark state={one.state} waiting={one.waiting} small />{" "}
          <a href={href(`/runs/${encodeURIComponent(one.run_id)}`)}>
            <Foreign text={one.run_id} className="id" />
          </a>
        </p>
      ))}
    </section>
  );
}

/** The nodes that it waits for, and those that came: each leads to its own drawer. */
export function Awaited({ store, node }: About) {
  const reason = store.at.value === undefined ? store.reasons.value.get(node) : undefined;
  const missing = reason?.waits_for ?? [];
  if (missing.length === 0) return null;
  const arrived = reason?.arrived ?? [];
  return (
    <dl class="awaited">
      <dt>{words.waitsFor}</dt>
      <dd>
        {missing.slice(0, 50).map((one) => (
          <Way key={one.node} node={one.node} state={one.state} />
        ))}
      </dd>
      {arrived.length > 0 && (
        <>
          <dt>{words.arrived}</dt>
          <dd>
            {arrived.slice(0, 50).map((one) => (
              <Way key={one} node={one} state={store.nodes.value.get(one)?.state ?? "completed"} />
            ))}
          </dd>
        </>
      )}
    </dl>
  );
}

function Way({ node, state }: { node: string; state: string }) {
  return (
    <button type="button" class="way" onClick={() => change({ node })}>
      <Foreign text={node} /> <StateMark state={state} small />
    </button>
  );
}
