// One node of the run: why it is where it is, what it gave, every attempt at it, and what it wrote.
import { useSignal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { call, now, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { itemsOf } from "../../graph/model.ts";
import { CopyButton, Duration, Foreign, Loading, Moment, StateMark } from "../../kit/basics.tsx";
import { Json } from "../../kit/Json.tsx";
import { Problem } from "../../kit/problem.tsx";
import { localTimes, zone } from "../../kit/time.ts";
import { change, href } from "../../router.ts";
import { words } from "../../words/en.ts";
import { mapItem } from "../../words/node.ts";
import { transcript } from "../../words/transcript.ts";
import { Failure } from "./Failure.tsx";
import { Awaited, ChildRuns, Definition, Input } from "./Given.tsx";
import { drawerWidth } from "./Grip.tsx";
import { Logs } from "./Logs.tsx";
import { chosenItem, MapItem } from "./MapItem.tsx";
import { NodeActions } from "./NodeActions.tsx";
import { OfVisit, Output } from "./Parts.tsx";
import { Stream } from "./Stream.tsx";
import type { RunStore } from "./store.ts";
import { chosenVisit, Visits } from "./Visits.tsx";

type Details = Schemas["NodeDetails"];

export function Drawer({ store, node }: { store: RunStore; node: string }) {
  const text = words.run.drawer;
  const title = useRef<HTMLHeadingElement>(null);
  const back = useRef(document.activeElement);
  const path = { run_id: store.runId, node };
  const at = store.at.value;
  const details = useLoad(`${node} ${at === undefined ? `now ${store.readings.value}` : at}`, (signal) =>
    call("GET /api/v1/runs/{run_id}/nodes/{node}", { path, query: { at, outputs: false }, signal }),
  );
  const shown = useRef<Details | undefined>(undefined);
  shown.current = details.data.value ?? shown.current;
  useEffect(() => {
    const from = back.current;
    title.current?.focus();
    return () => {
      if (from instanceof HTMLElement && from.isConnected) from.focus();
    };
  }, []);
  const found = shown.current;
  return (
    <aside class="drawer" aria-label={text.label(node)} style={{ "--drawer": `${drawerWidth.value}px` }}>
      <header>
        <h2 ref={title} tabIndex={-1}>
          <Foreign text={node} />
        </h2>
        <button type="button" class="quiet" onClick={() => change({ node: undefined })}>
          {words.close}
        </button>
      </header>
      {!found ? (
        details.error.value === undefined ? (
          <Loading rows={4} />
        ) : (
          <Problem error={details.error.value} onRetry={details.reload} />
        )
      ) : (
        <Chosen store={store} node={node} found={found} />
      )}
    </aside>
  );
}

/** One item of a map where the address names one, else the node. */
function Chosen({ store, node, found }: { store: RunStore; node: string; found: Details }) {
  const item = found.items ? chosenItem(itemsOf(found).all) : undefined;
  if (item === undefined) return <Content store={store} node={node} found={found} />;
  return <MapItem key={item} store={store} node={node} item={item} count={itemsOf(found).all} />;
}

function Content({ store, node, found }: { store: RunStore; node: string; found: Details }) {
  const text = words.run.drawer;
  const why = store.at.value === undefined ? store.why.value.get(node) : undefined;
  const visit = chosenVisit(found.visits);
  const attempts = visit ? found.attempts.filter((one) => one.visit === visit.visit) : found.attempts;
  return (
    <>
      <p class="drawer-facts">
        <StateMark state={found.state} />
        <a href={href(`/node-types/${encodeURIComponent(found.type)}`)} title={text.typeHelp}>
          <code>{found.type}</code>
        </a>
        {found.worker && (
          <span class="soft">
            <Foreign text={text.worker(found.worker)} />
          </span>
        )}
        {found.started_at !== undefined && (
          <span class="soft">
            <Duration from={found.started_at} to={found.ended_at} />
          </span>
        )}
      </p>
      <Visits store={store} node={node} visits={found.visits} />
      <NodeActions store={store} node={node} found={found} />
      {found.progress !== undefined && (
        <section>
          <h3>{text.progress}</h3>
          {typeof found.progress === "string" ? <Foreign text={found.progress} /> : <Json value={found.progress} />}
        </section>
      )}
      {why && (
        <section>
          <h3>{text.why}</h3>
          <p>
            <Foreign text={localTimes(why, zone.value, now())} />
          </p>
          <Awaited store={store} node={node} />
        </section>
      )}
      {found.error && (
        <section>
          <h3>{text.error}</h3>
          <Failure error={found.error} />
        </section>
      )}
      {found.items && (
        <section>
          <h3>{text.items}</h3>
          <p>
            {sayItems(found)}{" "}
            <button type="button" class="quiet" onClick={() => change({ item: "0" })}>
              {mapItem.each}
            </button>
          </p>
        </section>
      )}
      {found.ports.length > 0 && store.at.value === undefined && (
        <Stream store={store} node={node} ports={found.ports} />
      )}
      {found.type === "workflow" && <ChildRuns store={store} node={node} />}
      {SPEAKING.has(found.type) && <Conversation store={store} node={node} />}
      {!gaveNothing(found) && (
        <section>
          <h3>
            {text.output} {found.size !== undefined && <CopyButton text={`{{ ${node} }}`} label={text.template} />}
          </h3>
          {visit ? (
            <OfVisit
              key={visit.visit}
              where={{ runId: store.runId, node, of: "output", at: store.at.value }}
              visit={visit}
            />
          ) : (
            <Output
              where={{ runId: store.runId, node, of: "output", at: store.at.value }}
              size={found.size}
              turn={`${found.visit} ${found.attempt} ${found.state} ${found.size}`}
            />
          )}
        </section>
      )}
      <Input store={store} node={node} visit={visit?.visit} />
      <section>
        <h3>{text.attempts}</h3>
        {attempts.length === 0 ? <p class="soft">{text.noAttempts}</p> : <Attempts attempts={attempts} />}
      </section>
      <section>
        <h3>{text.logs}</h3>
        <Logs runId={store.runId} store={store} node={node} />
      </section>
      <Definition store={store} node={node} />
    </>
  );
}

/** Who failed gave nothing, and the error stands above: `null` is no output then. */
const gaveNothing = (found: Details): boolean =>
  Boolean(found.error) && found.visits.length < 2 && (found.size ?? 0) <= "null".length;

function sayItems(node: Details): string {
  const { completed, failed, all } = itemsOf(node);
  return words.run.graph.items(completed, all, failed);
}

/** Types of nodes that ask a model. */
const SPEAKING = new Set(["agent", "llm", "llm_service"]);

/** What was said: loaded where a node asks a model. */
function Conversation({ store, node }: { store: RunStore; node: string }) {
  const found = useSignal<ComponentType<{ store: RunStore; node: string }> | undefined>(undefined);
  const error = useSignal<unknown>(undefined);
  useEffect(() => {
    import("./Transcript.tsx").then(
      (made) => {
        found.value = made.default;
      },
      (caught: unknown) => {
        error.value = caught;
      },
    );
  }, []);
  const Found = found.value;
  return (
    <section>
      <h3>{transcript.title}</h3>
      {Found ? (
        <Found store={store} node={node} />
      ) : error.value === undefined ? (
        <Loading rows={2} />
      ) : (
        <Problem error={error.value} onRetry={() => location.reload()} />
      )}
    </section>
  );
}

function Attempts({ attempts }: { attempts: Details["attempts"] }) {
  const text = words.run.drawer;
  return (
    <ol class="attempts">
      {attempts.toReversed().map((one) => (
        <li key={`${one.visit} ${one.attempt} ${one.started_at} ${one.state}`}>
          <div>
            <strong>{text.attempt(one.attempt)}</strong>{" "}
            {attempts.some((other) => other.visit > 1) && <span class="soft">{text.visit(one.visit)}</span>}
            <StateMark state={one.state} small />
            <span class="soft">
              {one.worker && <Foreign text={text.worker(one.worker)} />} <Moment at={one.started_at ?? one.ended_at} />{" "}
              {one.started_at !== undefined && one.ended_at !== undefined && (
                <Duration from={one.started_at} to={one.ended_at} />
              )}
            </span>
          </div>
          {one.error && <Failure error={one.error} />}
          {one.retry_at !== undefined && one.state === "retrying" && (
            <p class="soft">
              {text.retryAt} <Moment at={one.retry_at} />
            </p>
          )}
        </li>
      ))}
    </ol>
  );
}
