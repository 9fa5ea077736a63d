// The line below the title: what the run stands still for, the first that holds, with the button that does something about it.
import { useSignal } from "@preact/signals";
import { call, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { CopyButton, Foreign, Moment } from "../../kit/basics.tsx";
import { quote } from "../../kit/commands.ts";
import { later } from "../../kit/Later.tsx";
import { change, href } from "../../router.ts";
import { lacks } from "../../shell/me.ts";
import { words as actions } from "../../words/actions.ts";
import { words } from "../../words/en.ts";
import { hasEnded, type RunStore, type RunView } from "./store.ts";
import { type ActionName, wish } from "./wish.ts";

const SendEvent = later(() => import("../triggers/SendEvent.tsx"), true);

type Obstacle = Schemas["Obstacle"];

export function Reason({ store, run }: { store: RunStore; run: RunView }) {
  if (run.quarantined)
    return (
      <Line bad>
        <Foreign text={words.run.why.quarantined(run.quarantined)} />
      </Line>
    );
  if (run.error) return <Failed store={store} run={run} />;
  if (hasEnded(run)) return null;
  const first = store.first.value ?? heldBack(store);
  return first ? <Held store={store} first={first} /> : null;
}

/** The first node that is ready and is held back, where the run as a whole is not: by a budget, or by a stream that is full. */
function heldBack(store: RunStore): Obstacle | undefined {
  for (const [node, view] of store.nodes.value) {
    const reason = view.state === "held" ? store.reasons.value.get(node) : undefined;
    if (reason) return { ...reason, node };
  }
  return undefined;
}

function Line({ bad = false, children }: { bad?: boolean; children: preact.ComponentChildren }) {
  return (
    <p class="reason" data-group={bad ? "bad" : "waits"}>
      {children}
    </p>
  );
}

function Failed({ store, run }: { store: RunStore; run: RunView }) {
  const error = run.error!;
  const said = [error.code, error.message].filter(Boolean).join(" · ");
  const text = error.node ? words.run.why.failed(error.node, said) : words.run.why.failedRun(said);
  return (
    <Line bad>
      <Foreign text={text} />
      {run.state === "failed" && <Do store={store} action="retry" />}
      {error.node && <Look node={error.node} />}
    </Line>
  );
}

function Held({ store, first }: { store: RunStore; first: Obstacle }) {
  const text = actions.why;
  const node = first.node ?? "";
  switch (first.code) {
    case "approval":
      return <Asked approvalId={first.approval_id ?? ""} node={node} />;
    case "parked":
      return (
        <Line bad>
          <Foreign text={text.parked(node, first.error ?? "")} />
          <a class="button" href={href(`/dead-letters/${encodeURIComponent(first.dead_letter_id ?? "")}`)}>
            {text.repair}
          </a>
          <Look node={node} />
        </Line>
      );
    case "no_worker":
      return (
        <Line>
          <Foreign text={store.why.value.get(node) ?? text.noWorker(first.queue ?? "")} />
          <CopyButton text={`perdure worker --queues ${quote(first.queue ?? "")}`} label={text.startWorker} />
          <Look node={node} />
        </Line>
      );
    case "paused":
      return <Paused store={store} by={first.by ?? ""} reason={first.reason ?? ""} />;
    case "signal":
      return (
        <Line>
          <Foreign text={text.signal(first.signal ?? "")} />
          <Do store={store} action="signal" about={first.signal} />
          <Look node={node} />
        </Line>
      );
    case "event":
      return <Heard name={first.event ?? ""} eventKey={first.key ?? ""} node={node} />;
    case "retry":
    case "timer":
    case "delay":
      return (
        <Line>
          <span>
            <Foreign text={first.code === "retry" ? text.retry(node) : text.timer(node)} /> <Moment at={first.until} />
          </span>
          <Look node={node} />
        </Line>
      );
    case "asks":
      return <Asking store={store} first={first} />;
    case "child":
      return (
        <Line>
          <Foreign text={text.child(node, first.child ?? "")} />
          <a class="button" href={href(`/runs/${encodeURIComponent(first.child ?? "")}`)}>
            {text.openChild}
          </a>
        </Line>
      );
    case "items":
      return (
        <Line>
          <Foreign text={text.items(node, first.open ?? 0)} />
          <Look node={node} />
        </Line>
      );
    default: {
      // What is queued has begun for all that is seen from here; only what the server says beyond that is a reason.
      const said = store.why.value.get(node);
      if (!said || store.counts.value.running > 0) return null;
      return (
        <Line>
          <Foreign text={said} />
          <Look node={node} />
        </Line>
      );
    }
  }
}

/** Whoever paused it, a person or a budget: its own needs more, that of several runs has room again by itself. */
function Paused({ store, by, reason }: { store: RunStore; by: string; reason: string }) {
  const text = actions.why;
  const scope = reason.startsWith("budget:") ? reason.slice("budget:".length) : undefined;
  if (scope !== undefined)
    return (
      <Line>
        <Foreign text={text.noRoom(scope)} />
        <a class="button" href={href("/costs", { tab: "budgets" })}>
          {text.budgets}
        </a>
        <Do store={store} action="resume" />
      </Line>
    );
  return (
    <Line>
      <Foreign text={reason === "budget" ? text.usedUp : text.paused(by, reason)} />
      <Do store={store} action="resume" />
    </Line>
  );
}

/** An event that is waited for can be sent from here. */
function Heard({ name, eventKey, node }: { name: string; eventKey: string; node: string }) {
  const sending = useSignal(false);
  const off = lacks("runs:start");
  return (
    <>
      <Line>
        <Foreign text={actions.why.event(name, eventKey)} />
        <button
          type="button"
          aria-disabled={off !== undefined}
          title={off}
          onClick={() => (sending.value = off === undefined)}
        >
          {actions.why.sendEvent}
        </button>
        <Look node={node} />
      </Line>
      {sending.value && <SendEvent name={name} eventKey={eventKey} onClose={() => (sending.value = false)} />}
    </>
  );
}

/** What the function of a node asked for and waits for: the first of it, with what can be done about that. */
function Asking({ store, first }: { store: RunStore; first: Obstacle }) {
  const text = actions.why;
  const node = first.node ?? "";
  const open = first.asks ?? [];
  const ask = open.find((one) => one.kind === "approval") ?? open[0];
  if (ask?.approval_id) return <Asked approvalId={ask.approval_id} node={node} />;
  return (
    <Line>
      <span>
        <Foreign
          text={text.asks(
            node,
            open.map((one) => one.name),
          )}
        />
        {ask?.until !== undefined && (
          <>
            {" "}
            <Moment at={ask.until} />
          </>
        )}
      </span>
      {ask?.signal && <Do store={store} action="signal" about={ask.signal} />}
      {ask?.child && (
        <a class="button" href={href(`/runs/${encodeURIComponent(ask.child)}`)}>
          {text.openChild}
        </a>
      )}
      <Look node={node} />
    </Line>
  );
}

function Asked({ approvalId, node }: { approvalId: string; node: string }) {
  const text = actions.why;
  const found = useLoad(approvalId, (signal) =>
    call("GET /api/v1/approvals/{approval_id}", { path: { approval_id: approvalId }, signal }),
  );
  const approval = found.data.value;
  return (
    <Line>
      <span>
        <Foreign text={text.approval(node, approval?.approvers ?? [])} />
        {approval?.can_decide && text.mayDecide}
      </span>
      <a class="button" href={href(`/approvals/${encodeURIComponent(approvalId)}`)}>
        {text.decide}
      </a>
      <Look node={node} />
    </Line>
  );
}

function Look({ node }: { node: string }) {
  return (
    <button type="button" onClick={() => change({ node })}>
      {actions.why.look}
    </button>
  );
}

function Do({ store, action, about }: { store: RunStore; action: ActionName; about?: string | undefined }) {
  const off = lacks("runs:operate");
  return (
    <button
      type="button"
      aria-disabled={off !== undefined}
      title={off}
      onClick={() => {
        if (off === undefined) wish.value = { runId: store.runId, action, about };
      }}
    >
      {actions.verbs[action]}
    </button>
  );
}
