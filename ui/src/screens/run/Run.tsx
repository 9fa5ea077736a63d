// One run: what state it is in, why it stands still, and its graph, journal, values and logs.
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { CopyButton, Duration, Foreign, Loading, Moment, StateMark } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { change, href, place } from "../../router.ts";
import { onKeys } from "../../shell/keys.ts";
import { number, words } from "../../words/en.ts";
import { Drawer } from "./Drawer.tsx";
import { GraphTab } from "./GraphTab.tsx";
import { Journal } from "./Journal.tsx";
import { Logs } from "./Logs.tsx";
import { hasEnded, mostUrgent, RunStore, type RunView } from "./store.ts";
import { Values } from "./Values.tsx";

const TABS = ["graph", "journal", "values", "logs"] as const;
type Tab = (typeof TABS)[number];

export default function Run({ names }: { names: Readonly<Record<string, string>> }) {
  const runId = names.run_id ?? "";
  const store = useMemo(() => new RunStore(runId), [runId]);
  useEffect(() => {
    document.title = `${runId} · ${words.product}`;
    store.open();
    return () => store.close();
  }, [store]);
  const run = store.run.value;
  if (!run) {
    return (
      <section class="screen">
        <Crumbs runId={runId} />
        <h1 class="hidden">{words.run.title(runId)}</h1>
        {store.error.value === undefined ? (
          <Loading />
        ) : (
          <Problem error={store.error.value} onRetry={() => store.retry()} />
        )}
      </section>
    );
  }
  return <Page store={store} run={run} />;
}

function Crumbs({ runId }: { runId: string }) {
  return (
    <div class="crumbs">
      <a href={href("/runs")}>{words.run.back}</a>
      <span aria-hidden="true">/</span>
      <Foreign text={runId} className="id" />
      <CopyButton text={runId} />
    </div>
  );
}

function Page({ store, run }: { store: RunStore; run: RunView }) {
  const asked = place.value.query.get("tab") as Tab | null;
  const tab: Tab = asked && TABS.includes(asked) ? asked : "graph";
  const node = place.value.query.get("node") ?? "";
  const choose = (next: Tab) => change({ tab: next === "graph" ? undefined : next });
  useEffect(
    () =>
      onKeys({
        ...Object.fromEntries(TABS.map((one, index) => [String(index + 1), () => choose(one)])),
        Escape: () => {
          if (place.peek().query.has("node")) change({ node: undefined });
        },
      }),
    [],
  );
  return (
    <section class="screen run">
      <Crumbs runId={run.run_id} />
      <Header store={store} run={run} />
      <Reason store={store} run={run} />
      <Announcer store={store} run={run} />
      <div class="tabs" role="tablist" aria-label={words.run.tabs.label}>
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
            onKeyDown={(event) => moveTab(event, one, choose)}
          >
            {words.run.tabs[one]}
          </button>
        ))}
      </div>
      <div class="with-drawer">
        <div id="panel" role="tabpanel" aria-labelledby={`tab-${tab}`} class="panel">
          {tab === "graph" && <GraphTab store={store} node={node} />}
          {tab === "journal" && <Journal store={store} />}
          {tab === "values" && <Values store={store} run={run} />}
          {tab === "logs" && <Logs runId={run.run_id} store={store} />}
        </div>
        {node && <Drawer key={node} store={store} node={node} />}
      </div>
    </section>
  );
}

function moveTab(event: KeyboardEvent, tab: Tab, choose: (tab: Tab) => void): void {
  const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
  if (!step) return;
  event.preventDefault();
  const next = TABS[(TABS.indexOf(tab) + step + TABS.length) % TABS.length]!;
  choose(next);
  document.getElementById(`tab-${next}`)?.focus();
}

function Header({ store, run }: { store: RunStore; run: RunView }) {
  const counts = store.counts.value;
  const facts = words.run.facts;
  return (
    <header class="run-head">
      <div class="run-title">
        <h1>
          <Foreign text={run.workflow} />
          <span class="soft">{run.version ? `@${number(run.version)}` : ` ${words.runs.unregistered}`}</span>
        </h1>
        <StateMark state={run.state} waiting={run.waiting ?? false} />
        <Live store={store} />
      </div>
      <dl class="facts">
        <Fact name={facts.started}>
          <Moment at={run.started_at ?? run.created_at} />
        </Fact>
        <Fact name={facts.duration}>
          <Duration from={run.started_at} to={run.ended_at} />
        </Fact>
        <Fact name={facts.nodes}>
          <span class="number">{words.run.progress(counts.done, counts.all)}</span>
          {counts.waits > 0 && <span class="soft">, {words.run.waits(counts.waits)}</span>}
          {counts.failed > 0 && <span class="bad">, {words.run.failedNodes(counts.failed)}</span>}
        </Fact>
        {run.submitted_by && (
          <Fact name={facts.by}>
            <Foreign text={run.submitted_by} />
          </Fact>
        )}
        {run.generation > 1 && <Fact name={facts.generation}>{number(run.generation)}</Fact>}
        {run.patches ? <Fact name={facts.patches}>{number(run.patches)}</Fact> : null}
        {run.parent && (
          <Fact name={facts.parent}>
            <a href={href(`/runs/${encodeURIComponent(run.parent)}`)}>
              <Foreign text={run.parent} className="id" />
            </a>
          </Fact>
        )}
        {run.continued_as && (
          <Fact name={facts.continued}>
            <a href={href(`/runs/${encodeURIComponent(run.continued_as)}`)}>
              <Foreign text={run.continued_as} className="id" />
            </a>
          </Fact>
        )}
        {Object.keys(run.tags).length > 0 && (
          <Fact name={facts.tags}>
            {Object.entries(run.tags).map(([name, value]) => (
              <a key={name} class="tag-link" href={href("/runs", { tag: `${name}=${value}` })}>
                <Foreign text={`${name}=${value}`} />
              </a>
            ))}
          </Fact>
        )}
      </dl>
    </header>
  );
}

function Fact({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Live({ store }: { store: RunStore }) {
  const { state, seconds } = store.live.value;
  const text = words.run.live;
  return (
    <span class="live" data-live={state}>
      {state === "waiting" ? text.waiting(seconds) : text[state]}
    </span>
  );
}

/** One sentence: what the run stands still for, and the way to it. */
function Reason({ store, run }: { store: RunStore; run: RunView }) {
  const found = reasonOf(store, run);
  if (!found) return null;
  return (
    <p class="reason" data-group={found.bad ? "bad" : "waits"}>
      <Foreign text={found.text} />
      {found.node && (
        <button type="button" onClick={() => change({ node: found.node })}>
          {words.run.why.open}
        </button>
      )}
    </p>
  );
}

function reasonOf(store: RunStore, run: RunView): { text: string; node?: string; bad?: boolean } | undefined {
  const text = words.run.why;
  if (run.quarantined) return { text: text.quarantined(run.quarantined), bad: true };
  if (run.error) {
    const said = [run.error.code, run.error.message].filter(Boolean).join(" · ");
    const { node } = run.error;
    return node ? { text: text.failed(node, said), node, bad: true } : { text: text.failedRun(said), bad: true };
  }
  if (hasEnded(run) || store.counts.value.running > 0) return undefined;
  const node = mostUrgent(store.nodes.value);
  const said = node === undefined ? undefined : store.why.value.get(node);
  return node !== undefined && said ? { text: said, node } : undefined;
}

/** What changed, for who does not see it: at most every two seconds, as a sum. */
function Announcer({ store, run }: { store: RunStore; run: RunView }) {
  const said = useSignal("");
  const { done } = store.counts.value;
  const state = words.states[run.state] ?? run.state;
  useEffect(() => {
    const timer = setTimeout(() => {
      said.value = `${words.run.announce.state(state)}. ${words.run.announce.completed(done)}.`;
    }, 2000);
    return () => clearTimeout(timer);
  }, [state, done]);
  return (
    <p class="hidden" role="status">
      {said}
    </p>
  );
}
