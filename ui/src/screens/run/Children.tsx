// The runs that this run started, and theirs, as a tree: failed ones first. Items of maps are below their node.
import { type Signal, useSignal } from "@preact/signals";
import { call, type Schemas } from "../../api/call.ts";
import { type Page, type Pages, readPages, useLoad } from "../../api/load.ts";
import { Duration, Empty, Foreign, Icon, Loading, StateMark } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { change, href } from "../../router.ts";
import { number, words } from "../../words/en.ts";
import type { RunStore } from "./store.ts";

type Child = Schemas["RunSummary"];
type Item = Schemas["MapItem"];

const PAGE = 200;
const RANKS = ["failed", "failing", "paused", "running", "cancelling", "cancelled"];

const rank = (state: string): number => {
  const found = RANKS.indexOf(state);
  return found < 0 ? RANKS.length : found;
};

export default function Children({ store }: { store: RunStore }) {
  const text = words.run.children;
  const maps = [...store.shown.value].filter(([, node]) => node.items !== undefined).map(([name]) => name);
  const limit = useSignal(PAGE);
  const loaded = useLoad(
    store.runId,
    (signal) => readChildren(store.runId, limit.value, signal),
    store.readings.value + limit.value,
  );
  const found = loaded.data.value;
  if (loaded.error.value !== undefined && !found) return <Problem error={loaded.error.value} onRetry={loaded.reload} />;
  if (!found) return <Loading rows={4} />;
  if (!found.items.length && !maps.length) {
    return (
      <Empty title={text.empty.title}>
        <p>{text.empty.text}</p>
      </Empty>
    );
  }
  return (
    <div class="children">
      {found.items.length > 0 && (
        <section class="card">
          <h2>{text.runs}</h2>
          <Tree children_={found.items} />
          {found.more && <More limit={limit} />}
        </section>
      )}
      {maps.map((node) => (
        <Items key={node} store={store} node={node} />
      ))}
    </div>
  );
}

/** Failed ones first, among those that were read. */
async function readRanked<One extends { state: string }>(
  limit: number,
  read: (cursor: string | undefined) => Promise<Page<One>>,
): Promise<Pages<One>> {
  const { items, more } = await readPages(limit, read);
  return { items: items.toSorted((one, two) => rank(one.state) - rank(two.state)), more };
}

const readChildren = (parent: string, limit: number, signal: AbortSignal) =>
  readRanked<Child>(limit, (cursor) => call("GET /api/v1/runs", { query: { parent, limit: PAGE, cursor }, signal }));

function More({ limit }: { limit: Signal<number> }) {
  return (
    <p>
      <button type="button" class="quiet" onClick={() => (limit.value += PAGE)}>
        {words.run.children.more}
      </button>
    </p>
  );
}

function Tree({ children_ }: { children_: readonly Child[] }) {
  return (
    <ul class="tree">
      {children_.map((child) => (
        <Branch key={child.run_id} child={child} />
      ))}
    </ul>
  );
}

function Branch({ child }: { child: Child }) {
  const text = words.run.children;
  const open = useSignal(false);
  return (
    <li>
      <div class="branch">
        <button
          type="button"
          class="quiet twig"
          aria-expanded={open.value}
          aria-label={text.open(child.run_id)}
          onClick={() => (open.value = !open.value)}
        >
          <Icon path={open.value ? "M4 6l4 5 4-5" : "M6 4l5 4-5 4"} />
        </button>
        <StateMark state={child.state} waiting={child.waiting} />
        <a href={href(`/runs/${encodeURIComponent(child.run_id)}`)}>
          <Foreign text={child.run_id} className="id" />
        </a>
        <span class="soft">
          <Foreign text={child.workflow} />
          {child.version ? `@${number(child.version)}` : ""}
        </span>
        <Duration from={child.started_at} to={child.ended_at} />
        {child.error && (
          <span class="error-line">
            <code>{child.error.code}</code>
          </span>
        )}
      </div>
      {open.value && <Below runId={child.run_id} />}
    </li>
  );
}

function Below({ runId }: { runId: string }) {
  const limit = useSignal(PAGE);
  const loaded = useLoad(runId, (signal) => readChildren(runId, limit.value, signal), limit.value);
  if (loaded.error.value !== undefined) return <Problem error={loaded.error.value} onRetry={loaded.reload} />;
  const found = loaded.data.value;
  if (!found) return <Loading rows={1} />;
  if (!found.items.length) return <p class="soft none">{words.run.children.none}</p>;
  return (
    <>
      <Tree children_={found.items} />
      {found.more && <More limit={limit} />}
    </>
  );
}

function Items({ store, node }: { store: RunStore; node: string }) {
  const text = words.run.children;
  const state = useSignal("");
  const counts = Object.entries(store.shown.value.get(node)?.items ?? {});
  const limit = useSignal(PAGE);
  const read = (signal: AbortSignal) =>
    readRanked<Item>(limit.value, (cursor) => {
      const path = { run_id: store.runId, node };
      const query = { limit: PAGE, cursor, state: (state.value || undefined) as Item["state"] | undefined };
      return call("GET /api/v1/runs/{run_id}/nodes/{node}/items", { path, query, signal });
    });
  const loaded = useLoad(`${node} ${state.value}`, read, store.readings.value + limit.value);
  const found = loaded.data.value;
  return (
    <section class="card">
      <h2>
        <button type="button" class="quiet" onClick={() => change({ node })}>
          <Foreign text={text.items(node)} />
        </button>
      </h2>
      <p class="soft number">
        {counts.map(([name, count]) => `${words.states[name] ?? name} ${number(count)}`).join(", ")}
      </p>
      <label>
        {text.state}{" "}
        <select value={state.value} onChange={(event) => (state.value = event.currentTarget.value)}>
          <option value="">{text.any}</option>
          {["failed", "running", "queued", "retrying", "completed"].map((one) => (
            <option key={one} value={one}>
              {words.states[one]}
            </option>
          ))}
        </select>
      </label>
      {loaded.error.value !== undefined ? (
        <Problem error={loaded.error.value} onRetry={loaded.reload} />
      ) : !found ? (
        <Loading rows={2} />
      ) : (
        <>
          <ul class="tree items">
            {found.items.map((item) => (
              <li key={item.item} class="branch" data-told={item.error !== null && item.error !== undefined}>
                <button type="button" class="quiet number" onClick={() => change({ node, item: String(item.item) })}>
                  {text.item(item.item)}
                </button>
                <StateMark state={item.state} small />
                {item.error && (
                  <span class="error-line">
                    <code>{item.error.code}</code> <Foreign text={item.error.message ?? ""} />
                  </span>
                )}
              </li>
            ))}
            {found.items.length === 0 && <li class="soft">{text.noItems}</li>}
          </ul>
          {found.more && <More limit={limit} />}
        </>
      )}
    </section>
  );
}
