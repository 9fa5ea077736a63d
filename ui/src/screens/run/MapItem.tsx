// One item of a map: its state, what it was given, what it gave, and the way to the one before and after it.
import { call, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Duration, Loading, StateMark } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { change, place } from "../../router.ts";
import { words } from "../../words/en.ts";
import { mapItem as text } from "../../words/node.ts";
import { Failure } from "./Failure.tsx";
import { Input } from "./Given.tsx";
import { Part } from "./Parts.tsx";
import type { RunStore } from "./store.ts";

interface Shown {
  readonly store: RunStore;
  readonly node: string;
  readonly item: number;
  readonly count: number;
}

/** The item that the address names, if the map has it. */
export function chosenItem(count: number): number | undefined {
  const named = place.value.query.get("item");
  return named !== null && /^\d{1,9}$/.test(named) && Number(named) < count ? Number(named) : undefined;
}

export function MapItem({ store, node, item, count }: Shown) {
  const at = store.at.value;
  const query = { limit: 1, cursor: item > 0 ? String(item - 1) : undefined };
  const loaded = useLoad(
    `${node} ${item}`,
    (signal) =>
      call("GET /api/v1/runs/{run_id}/nodes/{node}/items", { path: { run_id: store.runId, node }, query, signal }),
    store.readings.value,
  );
  const found = loaded.data.value?.items.find((one) => one.item === item);
  return (
    <>
      <div class="visits" role="group" aria-label={text.label}>
        <Step to={item - 1} count={count} label={text.before} sign="‹" />
        <strong class="number">{text.of(item, count)}</strong>
        <Step to={item + 1} count={count} label={text.after} sign="›" />
        <button type="button" class="quiet" onClick={() => change({ item: undefined })}>
          {text.node}
        </button>
        <button type="button" class="quiet" onClick={() => change({ node: undefined, tab: "children" })}>
          {text.all}
        </button>
      </div>
      {loaded.error.value !== undefined ? (
        <Problem error={loaded.error.value} onRetry={loaded.reload} />
      ) : !loaded.data.value ? (
        <Loading rows={3} />
      ) : (
        at === undefined && <State found={found} />
      )}
      {found?.error && (
        <section>
          <h3>{words.run.drawer.error}</h3>
          <Failure error={found.error} />
        </section>
      )}
      {found?.size !== undefined && (
        <section>
          <h3>{words.run.drawer.output}</h3>
          <Part where={{ runId: store.runId, node, of: "output", at, item }} />
        </section>
      )}
      <Input store={store} node={node} visit={undefined} item={item} />
    </>
  );
}

function Step({ to, count, label, sign }: { to: number; count: number; label: string; sign: string }) {
  return (
    <button
      type="button"
      aria-label={label}
      disabled={to < 0 || to >= count}
      onClick={() => change({ item: String(to) }, true)}
    >
      {sign}
    </button>
  );
}

function State({ found }: { found: Schemas["MapItem"] | undefined }) {
  if (!found) return <p class="soft">{text.notYet}</p>;
  return (
    <p class="drawer-facts">
      <StateMark state={found.state} />
      {found.attempt > 1 && <span class="soft">{words.run.drawer.attempt(found.attempt)}</span>}
      {found.started_at !== undefined && found.started_at !== null && (
        <span class="soft">
          <Duration from={found.started_at} to={found.ended_at} />
        </span>
      )}
    </p>
  );
}
