// Several approvals of one node at once: decided one by one, with what became of each.
import { useSignal } from "@preact/signals";
import { call, Refused } from "../../api/call.ts";
import { Foreign, StateMark } from "../../kit/basics.tsx";
import { Field, Sheet } from "../../kit/Sheet.tsx";
import { boot } from "../../shell/boot.ts";
import { lacks } from "../../shell/me.ts";
import { words as general } from "../../words/en.ts";
import { words } from "../../words/people.ts";
import type { Approval } from "./Approvals.tsx";
import { titleIn } from "./title.ts";

interface Props {
  readonly chosen: readonly Approval[];
  readonly decision: "approve" | "reject";
  readonly onClose: () => void;
}

interface Result {
  readonly approval: Approval;
  /** What was refused, in the server's words; undefined: it was decided. */
  readonly refused: string | undefined;
}

export function SeveralSheet({ chosen, decision, onClose }: Props) {
  const text = words.approvals.several;
  const isOpen = boot.value?.auth === "open";
  const as = useSignal("");
  const comments = useSignal("");
  const results = useSignal<readonly Result[]>([]);
  const done = useSignal(false);
  const whyNot =
    lacks("approvals:decide") ??
    (isOpen && !as.value.trim()
      ? words.approvals.needsName
      : decision === "reject" && !comments.value.trim()
        ? words.approvals.needsReason
        : undefined);
  const act = async () => {
    results.value = [];
    const approver = isOpen ? as.value.trim() : null;
    for (const approval of chosen) {
      const body = { decision, comments: comments.value, data: null, approver };
      const path = { approval_id: approval.approval_id };
      const refused = await call("POST /api/v1/approvals/{approval_id}/decide", { path, body }).then(
        () => undefined,
        (error: unknown) => (error instanceof Refused ? error.problem.detail : general.problem.unreachable),
      );
      results.value = [...results.value, { approval, refused }];
    }
    done.value = true;
  };
  const decided = results.value.filter((one) => one.refused === undefined).length;
  return (
    <Sheet
      title={text.titles[decision](chosen.length)}
      verb={words.approvals[decision]}
      harmful={decision === "reject"}
      onClose={onClose}
      onDo={act}
      whyNot={whyNot}
      done={done.value ? <p role="status">{text.done(decided, results.value.length - decided)}</p> : undefined}
    >
      <p>
        {text.does} {words.approvals.noUndo}
      </p>
      <ol class="several" aria-label={text.list}>
        {chosen.map((approval) => (
          <One
            key={approval.approval_id}
            approval={approval}
            result={results.value.find((one) => one.approval === approval)}
          />
        ))}
      </ol>
      {!done.value && (
        <>
          {isOpen && (
            <Field label={words.approvals.as} hint={words.approvals.asHint}>
              {(named) => (
                <input
                  {...named}
                  type="text"
                  maxLength={200}
                  autocomplete="off"
                  value={as.value}
                  onInput={(event) => (as.value = event.currentTarget.value)}
                />
              )}
            </Field>
          )}
          <Field label={decision === "reject" ? words.approvals.reason : words.approvals.comments}>
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
        </>
      )}
    </Sheet>
  );
}

function One({ approval, result }: { approval: Approval; result: Result | undefined }) {
  return (
    <li>
      <Foreign text={titleIn(approval.shown) ?? words.approvals.noTitle(approval.node)} />{" "}
      {result && <StateMark state={result.refused === undefined ? "completed" : "failed"} small />}
      {result?.refused !== undefined && (
        <div class="soft small">
          <Foreign text={result.refused} />
        </div>
      )}
    </li>
  );
}
