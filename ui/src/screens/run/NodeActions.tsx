// What can be done with one node of the run: rerun from it, decide it, repair it, or signal it.
import { Foreign } from "../../kit/basics.tsx";
import { href } from "../../router.ts";
import { lacks } from "../../shell/me.ts";
import { words } from "../../words/actions.ts";
import type { RunStore } from "./store.ts";
import { type ActionName, wish } from "./wish.ts";

export function NodeActions({ store, node }: { store: RunStore; node: string }) {
  const reason = store.reasons.value.get(node);
  const off = lacks("runs:operate");
  const open = (action: ActionName, about: string) => () => {
    if (off === undefined) wish.value = { runId: store.runId, action, about };
  };
  return (
    <p class="node-actions">
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
      <button type="button" aria-disabled={off !== undefined} title={off} onClick={open("rerun", node)}>
        {words.rerunHere}
      </button>
    </p>
  );
}
