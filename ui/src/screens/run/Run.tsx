// One run: what state it is in, why it stands still, and its graph, journal, values and logs.
import { useSignal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect, useLayoutEffect, useMemo } from "preact/hooks";
import { Slider } from "../../film/Slider.tsx";
import { CopyButton, Duration, Foreign, Loading, Moment, StateMark } from "../../kit/basics.tsx";
import { later } from "../../kit/Later.tsx";
import { Problem } from "../../kit/problem.tsx";
import { change, href, place } from "../../router.ts";
import { onKeys } from "../../shell/keys.ts";
import { lacks } from "../../shell/me.ts";
import { onScreen } from "../../shell/onscreen.ts";
import { number, words } from "../../words/en.ts";
import { ActionBar, ActionSheets } from "./Actions.tsx";
import { Compare } from "./Compare.tsx";
import { Drawer } from "./Drawer.tsx";
import { GraphTab } from "./GraphTab.tsx";
import { Grip } from "./Grip.tsx";
import { Journal } from "./Journal.tsx";
import { Reason } from "./Reason.tsx";
import { hasEnded, RunStore, type RunView } from "./store.ts";

const TABS = ["graph", "timeline", "journal", "values", "logs", "children", "costs"] as const;
type Tab = (typeof TABS)[number];

export default function Run({ names }: { names: Readonly<Record<string, string>> }) {
  const runId = names.run_id ?? "";
  const other = place.value.query.get("compare");
  return other ? <Both first={runId} second={other} /> : <One runId={runId} />;
}

/** What is not seen first is loaded when it is asked for. */
const Both = later(() => import("./Pair.tsx"));
const Timeline = later(() => import("./Timeline.tsx"));
const Values = later(() => import("./Values.tsx"));
const Lines = later(() => import("./Lines.tsx"));
const Children = later(() => import("./Children.tsx"));
const Costs = later(() => import("./Costs.tsx"));

function One({ runId }: { runId: string }) {
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
  useEffect(() => {
    if (tab !== "graph") store.pictured();
  }, [tab]);
  const choose = (next: Tab) => change({ tab: next === "graph" ? undefined : next });
  // At once, not after the first picture: what is seen can be used.
  useLayoutEffect(
    () =>
      onKeys({
        ...Object.fromEntries(TABS.map((one, index) => [String(index + 1), () => choose(one)])),
        Escape: () => {
          if (place.peek().query.has("node")) change({ node: undefined });
        },
      }),
    [],
  );
  useEffect(() => {
    onScreen.value = [...store.nodes.value.keys()].slice(0, 2000).map((id) => ({
      kind: "node",
      label: id,
      to: href(`/runs/${encodeURIComponent(run.run_id)}`, { node: id }),
    }));
    return () => {
      onScreen.value = [];
    };
  }, [run.run_id, store.nodes.value.size]);
  return (
    <section class={store.at.value === undefined ? "screen run" : "screen run past"}>
      <Crumbs runId={run.run_id} />
      <Header store={store} run={run} />
      <FirstMinute store={store} run={run} />
      {store.at.value === undefined ? <Reason store={store} run={run} /> : <Past store={store} at={store.at.value} />}
      <Slider store={store} />
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
            ref={one === tab ? keepInView : undefined}
            onKeyDown={(event) => moveTab(event, one, choose)}
          >
            {words.run.tabs[one]}
          </button>
        ))}
      </div>
      <div class="with-drawer">
        <div id="panel" role="tabpanel" aria-labelledby={`tab-${tab}`} class="panel">
          {tab === "graph" && <GraphTab store={store} node={node} />}
          {tab === "timeline" && <Timeline store={store} node={node} />}
          {tab === "journal" && <Journal store={store} />}
          {tab === "values" && <Values store={store} run={run} />}
          {tab === "logs" && <Lines runId={run.run_id} store={store} />}
          {tab === "children" && <Children store={store} />}
          {tab === "costs" && <Costs store={store} />}
        </div>
        {node && <Grip />}
        {node && <Drawer key={node} store={store} node={node} />}
      </div>
      <ActionSheets store={store} run={run} />
    </section>
  );
}

/** On a narrow screen the line of tabs scrolls: the one that is open is seen. */
function keepInView(tab: HTMLElement | null): void {
  const line = tab?.parentElement;
  if (tab && line && line.scrollWidth > line.clientWidth)
    line.scrollLeft = tab.offsetLeft - (line.clientWidth - tab.offsetWidth) / 2;
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
  const at = store.at.value;
  return (
    <header class="run-head">
      <div class="run-title">
        <h1>
          <Foreign text={run.workflow} />
          <span class="soft">{run.version ? `@${number(run.version)}` : ` ${words.runs.unregistered}`}</span>
        </h1>
        {at === undefined ? (
          <>
            <StateMark state={run.quarantined ? "quarantined" : run.state} waiting={run.waiting ?? false} />
            <Live store={store} />
          </>
        ) : (
          store.film.version.value > 0 && <StateMark state={store.film.phases.stateAt(at)} />
        )}
        {at === undefined && <ActionBar store={store} run={run} />}
        {at === undefined && !hasEnded(run) && <PatchWay runId={run.run_id} />}
      </div>
      <dl class="facts">
        <Fact name={facts.started}>
          <Moment at={run.started_at ?? run.created_at} />
        </Fact>
        {run.started_at !== undefined && run.started_at !== null && (
          <Fact name={facts.duration}>
            <Duration from={run.started_at} to={at === undefined ? run.ended_at : store.film.film.timeAt(at)} />
          </Fact>
        )}
        {run.deadline_at !== undefined && !hasEnded(run) && (
          <Fact name={facts.deadline}>
            <Moment at={run.deadline_at} />
          </Fact>
        )}
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
        {run.origin && (
          <Fact name={facts.origin}>
            <a href={href(`/runs/${encodeURIComponent(run.origin)}`)}>
              <Foreign text={run.origin} className="id" />
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

/** The hints of the sample: loaded where the address asks for them. */
function FirstMinute({ store, run }: { store: RunStore; run: RunView }) {
  const found = useSignal<ComponentType<{ store: RunStore; run: RunView }> | undefined>(undefined);
  const isWanted = place.value.query.has("welcome");
  useEffect(() => {
    if (isWanted)
      import("../welcome/Welcome.tsx").then(
        (made) => {
          found.value = made.default;
        },
        () => {}, // the run can be seen without them
      );
  }, [isWanted]);
  const Found = found.value;
  return isWanted && Found ? <Found store={store} run={run} /> : null;
}

/** The way to the editor of the run's definition. */
function PatchWay({ runId }: { runId: string }) {
  const why = lacks("runs:patch", "workflows:write");
  if (why === undefined)
    return (
      <a class="button patch-way" href={href(`/runs/${encodeURIComponent(runId)}/edit`)}>
        {words.run.patch}
      </a>
    );
  return (
    <button type="button" class="patch-way" disabled title={why}>
      {words.run.patch}
    </button>
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

/** That the page shows the past: what is to be seen there, and the ways out. */
function Past({ store, at }: { store: RunStore; at: number }) {
  const text = words.run.film;
  const compared = useSignal(false);
  return (
    <>
      <div class="reason past-line" data-group="waits">
        <span>{text.past(at, store.events.last.value)}</span>
        <span class="past-ways">
          <button type="button" onClick={() => (compared.value = true)}>
            {text.compare}
          </button>
        </span>
      </div>
      {compared.value && <Compare runId={store.runId} at={at} onClose={() => (compared.value = false)} />}
    </>
  );
}

/** What changed, for who does not see it: at most every two seconds, as a sum. */
function Announcer({ store, run }: { store: RunStore; run: RunView }) {
  const said = useSignal("");
  const { done, failed, waits } = store.counts.value;
  const state = words.states[run.state] ?? run.state;
  useEffect(() => {
    const timer = setTimeout(() => {
      said.value = words.run.announce(state, done, failed, waits);
    }, 2000);
    return () => clearTimeout(timer);
  }, [state, done, failed, waits]);
  return (
    <p class="hidden" role="status">
      {said}
    </p>
  );
}
