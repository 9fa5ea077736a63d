// What went into the run, what came out of it, and what each node gave.
import { useSignal } from "@preact/signals";
import { call } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Foreign, Loading, StateMark } from "../../kit/basics.tsx";
import { Json } from "../../kit/Json.tsx";
import { Problem } from "../../kit/problem.tsx";
import { change, go, href } from "../../router.ts";
import { words } from "../../words/en.ts";
import { node as nodeWords } from "../../words/node.ts";
import { Output, Stored, type Whereabouts } from "./Parts.tsx";
import { hasEnded, type RunStore, type RunView } from "./store.ts";

const NODES = 100;

const isNothing = (value: unknown): boolean =>
  value === null || value === undefined || (typeof value === "object" && Object.keys(value).length === 0);

/** What the run has now, or had at an event. */
async function read(store: RunStore, at: number | undefined, signal: AbortSignal) {
  const path = { run_id: store.runId };
  if (at === undefined) {
    const query = { outputs: false, limit: NODES };
    const page = await call("GET /api/v1/runs/{run_id}/nodes", { path, query, signal });
    return { run: undefined, items: page.items };
  }
  const run = await call("GET /api/v1/runs/{run_id}/state", { path, query: { at }, signal });
  return { run, items: Object.entries(run.nodes).map(([node, view]) => ({ ...view, node })) };
}

export default function Values({ store, run: now }: { store: RunStore; run: RunView }) {
  const text = words.run.values;
  const at = store.at.value;
  const again = at === undefined ? store.readings.value : 0;
  const loaded = useLoad(`${store.runId} ${at ?? "now"}`, (signal) => read(store, at, signal), again);
  const run = loaded.data.value?.run ?? now;
  const nodes = loaded.data.value?.items.filter((item) => item.output !== undefined || item.size !== undefined);
  return (
    <div class="values">
      <CompareWith run={now} />
      <Block title={text.inputs} value={run.inputs} none={text.none} where={{ runId: store.runId, of: "inputs" }} />
      {run.error ? (
        <Block title={text.error} value={run.error} none={text.none} />
      ) : (
        <Block
          title={text.outputs}
          value={run.outputs}
          none={hasEnded(run) ? text.none : text.notYet}
          where={{ runId: store.runId, of: "outputs" }}
        />
      )}
      <section class="card">
        <h2>{text.nodes}</h2>
        {loaded.error.value !== undefined && !nodes ? (
          <Problem error={loaded.error.value} onRetry={loaded.reload} />
        ) : !nodes ? (
          <Loading rows={3} />
        ) : nodes.length === 0 ? (
          <p class="soft">{text.noOutput}</p>
        ) : (
          nodes.map((item) => <NodeValue key={item.node} store={store} item={item} at={at} open={nodes.length <= 12} />)
        )}
      </section>
    </div>
  );
}

/** The way to another run beside this one: what differs, by its path. Those it is likely to be are offered. */
function CompareWith({ run }: { run: RunView }) {
  const text = words.run.values;
  const wanted = useSignal("");
  const found = useLoad(run.workflow, (signal) =>
    call("GET /api/v1/runs", { query: { workflow: run.workflow, limit: 20 }, signal }),
  );
  const ids = [run.origin, ...(found.data.value?.items.map((one) => one.run_id) ?? [])].filter(
    (id, index, all) => id !== undefined && id !== run.run_id && all.indexOf(id) === index,
  );
  return (
    <form
      class="bar compare-with"
      onSubmit={(event) => {
        event.preventDefault();
        const other = wanted.value.trim();
        if (other) go(href(`/runs/${encodeURIComponent(run.run_id)}`, { compare: other }));
      }}
    >
      <label class="grow">
        <span class="hidden">{text.compare}</span>
        <input
          type="search"
          list="other-runs"
          placeholder={`${text.compare}: ${text.compareHint}`}
          value={wanted.value}
          onInput={(event) => (wanted.value = event.currentTarget.value)}
        />
      </label>
      <datalist id="other-runs">
        {ids.map((id) => (
          <option key={id} value={id} />
        ))}
      </datalist>
      <button type="submit" disabled={!wanted.value.trim()}>
        {text.compareDo}
      </button>
    </form>
  );
}

interface Given {
  store: RunStore;
  item: { node: string; state: string; visit: number; attempt: number; output?: unknown; size?: number };
  at: number | undefined;
  open: boolean;
}

function NodeValue({ store, item, at, open }: Given) {
  const isOpen = useSignal(open);
  const where = { runId: store.runId, node: item.node, of: "output", at } as const;
  return (
    <details class="node-value" open={open} onToggle={(event) => (isOpen.value = event.currentTarget.open)}>
      <summary>
        <Foreign text={item.node} className="id" /> <StateMark state={item.state} small />
        {item.size !== undefined && <span class="soft number">{nodeWords.parts.bytes(item.size)}</span>}
      </summary>
      {isOpen.value &&
        (item.output !== undefined ? (
          <Stored value={item.output} where={where} />
        ) : (
          <Output where={where} size={item.size} turn={`${item.visit} ${item.attempt} ${item.state} ${item.size}`} />
        ))}
      <button type="button" class="quiet" onClick={() => change({ node: item.node })}>
        {words.run.why.open}
      </button>
    </details>
  );
}

interface Shown {
  title: string;
  value: unknown;
  none: string;
  where?: Whereabouts;
}

function Block({ title, value, none, where }: Shown) {
  return (
    <section class="card">
      <h2>{title}</h2>
      {isNothing(value) ? (
        <p class="soft">{none}</p>
      ) : where ? (
        <Stored value={value} where={where} />
      ) : (
        <Json value={value} copy />
      )}
    </section>
  );
}
