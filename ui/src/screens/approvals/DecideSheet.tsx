// The sheet that asks before a decision: what it does, the changes, a comment, and who decides where nobody is known.
import { useSignal } from "@preact/signals";
import { useId } from "preact/hooks";
import { call } from "../../api/call.ts";
import { write } from "../../api/exact.ts";
import { CopyAs } from "../../kit/CopyAs.tsx";
import type { Doing } from "../../kit/commands.ts";
import { Diff } from "../../kit/Diff.tsx";
import type { Difference } from "../../kit/diff.ts";
import { Field, Sheet } from "../../kit/Sheet.tsx";
import { boot } from "../../shell/boot.ts";
import { words } from "../../words/people.ts";
import { approvals } from "./Approvals.tsx";
import type { Details } from "./Detail.tsx";

export type Deciding = "approve" | "reject" | "delegate";

interface Props {
  approval: Details;
  deciding: Deciding;
  data: unknown;
  changes: readonly Difference[];
  onClose: () => void;
  onSaid: (what: string) => void;
}

/** Who decided last here, so that the name need not be typed again. */
let lastName = "";

export function DecideSheet({ approval, deciding, data, changes, onClose, onSaid }: Props) {
  const text = words.approvals;
  const isOpen = boot.value?.auth === "open";
  const comments = useSignal("");
  const to = useSignal("");
  const asked = approval.approvers.filter((one) => !one.includes(":"));
  const as = useSignal(lastName || (asked.length === 1 ? (asked[0] ?? "") : ""));
  const id = useId();
  const whyNot =
    isOpen && !as.value.trim()
      ? text.needsName
      : deciding === "reject" && !comments.value.trim()
        ? text.needsReason
        : deciding === "delegate" && !to.value.trim()
          ? text.needsTo
          : undefined;
  const approver = isOpen ? as.value.trim() : null;
  const act = async () => {
    const path = { approval_id: approval.approval_id };
    lastName = as.value.trim();
    if (deciding === "delegate") {
      const body = { to: to.value.trim(), comments: comments.value, approver };
      await call("POST /api/v1/approvals/{approval_id}/delegate", { path, body });
      onSaid(text.done.delegated(to.value.trim()));
    } else {
      const given = deciding === "approve" ? (data ?? null) : null;
      const body = { decision: deciding, comments: comments.value, data: given, approver };
      const after = await call("POST /api/v1/approvals/{approval_id}/decide", { path, body });
      const runs = after.state === "decided" && deciding === "approve" ? await findNext(approval) : undefined;
      onSaid(
        after.state === "pending"
          ? deciding === "approve"
            ? text.done.approvedMore(after.quorum - approvals(after))
            : text.done.rejectedMore
          : runs
            ? text.done.runs(runs)
            : text.done.decided(text.decisions[deciding]),
      );
    }
    onClose();
  };
  return (
    <Sheet
      title={text.sheets[deciding]}
      verb={text[deciding]}
      harmful={deciding === "reject"}
      onClose={onClose}
      onDo={act}
      whyNot={whyNot}
    >
      <p>
        {text.does[deciding]} {deciding !== "delegate" && text.noUndo}
      </p>
      {deciding === "approve" && data !== undefined && <Diff found={changes} label={text.changes} />}
      {isOpen && (
        <Field label={text.as} hint={text.asHint}>
          {(named) => (
            <>
              <input
                {...named}
                type="text"
                list={`${id}-asked`}
                maxLength={200}
                autocomplete="off"
                value={as.value}
                onInput={(event) => (as.value = event.currentTarget.value)}
              />
              <datalist id={`${id}-asked`}>
                {asked.map((one) => (
                  <option key={one} value={one} />
                ))}
              </datalist>
            </>
          )}
        </Field>
      )}
      {deciding === "delegate" && (
        <Field label={text.to}>
          {(named) => (
            <input
              {...named}
              type="text"
              maxLength={200}
              value={to.value}
              onInput={(event) => (to.value = event.currentTarget.value)}
            />
          )}
        </Field>
      )}
      <Field
        label={deciding === "reject" ? text.reason : text.comments}
        hint={deciding === "reject" ? text.rejectHint : deciding === "approve" ? text.commentsHint : undefined}
      >
        {(named) => (
          <textarea
            {...named}
            rows={2}
            maxLength={10_000}
            value={comments.value}
            onInput={(event) => (comments.value = event.currentTarget.value)}
          />
        )}
      </Field>
      <CopyAs
        doing={doingOf(approval.approval_id, deciding, comments.value, data, to.value.trim(), approver ?? undefined)}
      />
    </Sheet>
  );
}

export function doingOf(
  id: string,
  deciding: Deciding,
  comments: string,
  data: unknown,
  to: string,
  by: string | undefined,
): Doing {
  const more = [...(comments ? ["--comments", comments] : []), ...(by ? ["--by", by] : [])];
  const named = { comments: comments || undefined, by };
  const who = by ? { approver: by } : {};
  if (deciding === "delegate")
    return {
      command: ["approvals", "delegate", id, to, ...more],
      method: "POST",
      path: `/api/v1/approvals/${encodeURIComponent(id)}/delegate`,
      body: { to, comments, ...who },
      python: ["approvals.delegate", [id, to], named],
    };
  const given = deciding === "approve" && data !== undefined ? data : undefined;
  return {
    command: ["approvals", deciding, id, ...(given === undefined ? [] : ["--data", write(given)]), ...more],
    method: "POST",
    path: `/api/v1/approvals/${encodeURIComponent(id)}/decide`,
    body: { decision: deciding, comments, data: given, ...who },
    python: ["approvals.decide", [id, deciding], { ...named, data: given }],
  };
}

/** The first node behind the approval that goes on, for what is said afterwards; undefined where none does at once. */
async function findNext(approval: Details): Promise<string | undefined> {
  try {
    const path = { run_id: approval.run_id };
    const graph = await call("GET /api/v1/runs/{run_id}/graph", { path, query: { open: ["*"] } });
    for (const edge of graph.edges) {
      if (edge.from !== approval.node || edge.kind === "back") continue;
      const node = await call("GET /api/v1/runs/{run_id}/nodes/{node}", { path: { ...path, node: edge.to } });
      if (!["pending", "skipped", "upstream_failed", "cancelled"].includes(node.state)) return edge.to;
    }
  } catch {
    // the decision stands; that nothing more is known of it is no error of it
  }
  return undefined;
}
