// What can be done with one node of the run: rerun from it, decide it, repair it, signal it, or tell it something.
import { useSignal } from "@preact/signals";
import type { Schemas } from "../../api/call.ts";
import { Foreign } from "../../kit/basics.tsx";
import { later } from "../../kit/Later.tsx";
import { href } from "../../router.ts";
import { lacks } from "../../shell/me.ts";
import { words } from "../../words/actions.ts";
import type { RunStore } from "./store.ts";
import { type ActionName, wish } from "./wish.ts";

const TellSheet = later(async () => ({ default: (await import("./sheet/ActionSheet.tsx")).TellSheet }), true);

/** States in which an agent still reads what it is told. */
const AT_WORK = new Set(["queued", "running", "waiting", "held", "retrying"]);

export function NodeActions({ store, node, found }: { store: RunStore; node: string; found: Schemas["NodeDetails"] }) {
  const telling = useSignal(false);
  const reads = found.type === "agent" && AT_WORK.has(found.state) && store.at.value === undefined;
  const reason = store.reasons.value.get(node);
  const off = lacks("runs:operate");
  const open = (action: ActionName, about: string) => () => {
    if (off === undefined) wish.value = { runId: store.runId, action, about };
  };
  return (
    <div class="node-actions">
      {reason?.approval_id && (
        <a class="button" href={href(`/approvals/${encodeURIComponent(reason.approval_id)}`)}>
          {words.why.decide}
        </a>
      )}
      {reason?.dead_letter_id && (
        <a class="button" href={href(`/dead-letters/${encodeURIComponent(reason.dead_letter_id)}`)}>
          {words.why.repair}
        </a>
      )}
      {reason?.signal && (
        <button type="button" aria-disabled={off !== undefined} onClick={open("signal", reason.signal)}>
          {words.verbs.signal} <Foreign text={reason.signal} className="id" />
        </button>
      )}
      {reads && (
        <button
          type="button"
          aria-disabled={off !== undefined}
          title={off}
          onClick={() => (telling.value = off === undefined)}
        >
          {words.tell.verb}
        </button>
      )}
      {telling.value && <TellSheet runId={store.runId} node={node} onClose={() => (telling.value = false)} />}
      <button type="button" aria-disabled={off !== undefined} title={off} onClick={open("rerun", node)}>
        {words.rerunHere}
      </button>
    </div>
  );
}
