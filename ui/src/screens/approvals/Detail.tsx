// One approval: everything that is shown to who decides, the form with what it changes, the votes, and the buttons.
import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { call, now, type Schemas } from "../../api/call.ts";
import { pulse, useLoad } from "../../api/load.ts";
import { Foreign, Loading, Moment, StateMark } from "../../kit/basics.tsx";
import { Diff } from "../../kit/Diff.tsx";
import { findDifferences } from "../../kit/diff.ts";
import { Json } from "../../kit/Json.tsx";
import { Problem } from "../../kit/problem.tsx";
import { SchemaForm } from "../../kit/SchemaForm.tsx";
import type { Schema } from "../../kit/schema.ts";
import { ticks } from "../../kit/ticks.ts";
import { base, href } from "../../router.ts";
import { onKeys } from "../../shell/keys.ts";
import { lacks, readMe } from "../../shell/me.ts";
import { words } from "../../words/people.ts";
import { approvals } from "./Approvals.tsx";
import { DecideSheet, type Deciding } from "./DecideSheet.tsx";
import { firstValue } from "./first.ts";
import { LinksSheet } from "./LinksSheet.tsx";
import { besideTitle, titleIn } from "./title.ts";

export type Details = Schemas["ApprovalDetails"];
const POLL_SECONDS = 3;

const isForm = (form: unknown): boolean =>
  form !== null && typeof form === "object" && Object.keys(form as object).length > 0;

/** The part of what is shown that a form changes: what the node shows, else everything; as the server takes it. */
export function subjectOf(shown: unknown): unknown {
  return shown !== null && typeof shown === "object" && "show" in shown ? shown.show : shown;
}

interface Props {
  approvalId: string;
  next: string | undefined;
  onDone: () => void;
}

export function Detail({ approvalId, next, onDone }: Props) {
  const shown = useRef<Details | undefined>(undefined);
  const loaded = useLoad(approvalId, (signal) =>
    call("GET /api/v1/approvals/{approval_id}", { path: { approval_id: approvalId }, signal }),
  );
  shown.current = loaded.data.value ?? shown.current;
  useEffect(() => {
    void readMe();
    const polling = pulse(
      POLL_SECONDS,
      async () => loaded.reload(),
      () => {},
    );
    return () => polling.stop();
  }, []);
  const found = shown.current;
  if (!found)
    return loaded.error.value === undefined ? (
      <Loading rows={6} />
    ) : (
      <Problem error={loaded.error.value} onRetry={loaded.reload} />
    );
  return (
    <Shown
      approval={found}
      next={next}
      onDone={() => {
        loaded.reload();
        onDone();
      }}
    />
  );
}

function Shown({ approval, next, onDone }: { approval: Details; next: string | undefined; onDone: () => void }) {
  const text = words.approvals;
  const title = useRef<HTMLHeadingElement>(null);
  const deciding = useSignal<Deciding | undefined>(undefined);
  const said = useSignal("");
  const linking = useSignal(false);
  const withForm = isForm(approval.form);
  const subject = subjectOf(approval.shown);
  const draft = useSignal<unknown>(
    withForm ? firstValue(approval.form as Schema, approval.form as Schema, subject) : undefined,
  );
  const isOver = useComputed(
    () => approval.state === "pending" && approval.expires_at !== null && (ticks.value && now()) > approval.expires_at,
  );
  const pending = approval.state === "pending";
  const off =
    lacks("approvals:decide") ??
    (approval.can_decide === false ? (text.whyNot[approval.why_not ?? ""] ?? approval.why_not ?? "") : undefined);
  useEffect(() => {
    title.current?.focus({ preventScroll: true });
  }, []);
  const ask = (what: Deciding) => () => {
    if (off === undefined && pending) deciding.value = what;
  };
  useLayoutEffect(() => onKeys({ a: ask("approve"), r: ask("reject") }), [off, pending]);
  const changes = withForm && draft.value !== undefined ? findDifferences(subject, draft.value) : [];
  return (
    <article class="approval-detail" aria-labelledby="approval-title">
      <a class="back-link" href={href("/approvals")}>
        {text.back}
      </a>
      <header>
        <h2 id="approval-title" ref={title} tabIndex={-1}>
          <Foreign text={titleIn(approval.shown) ?? text.noTitle(approval.node)} />
        </h2>
        <p class="soft facts-line">
          <a href={href(`/runs/${encodeURIComponent(approval.run_id)}`, { node: approval.node })}>
            <Foreign text={`${approval.workflow ?? ""} · ${approval.node}`} />
          </a>
          {approval.by && <Foreign text={text.asks(approval.by)} />}
          <span>
            {text.requested} <Moment at={approval.requested_at} />
          </span>
          <Foreign text={text.asked(approval.approvers)} />
          {approval.quorum > 1 && (
            <span>
              {text.votes(approvals(approval), approval.quorum)} {text.votesWord}
            </span>
          )}
          {pending && approval.expires_at !== null && (
            <span class={isOver.value ? "flag" : undefined}>
              {isOver.value ? (
                text.expired
              ) : (
                <>
                  {text.expires} <Moment at={approval.expires_at} />
                </>
              )}
            </span>
          )}
          {approval.escalated && <span class="flag">{text.escalated}</span>}
        </p>
      </header>
      {!pending && <Decided approval={approval} />}
      <p role="status" class={said.value ? "said" : "hidden"}>
        {said.value}{" "}
        {said.value && next && (
          <a class="button" href={href(`/approvals/${encodeURIComponent(next)}`)}>
            {text.done.next}
          </a>
        )}
      </p>
      <section>
        <h3>{text.shown}</h3>
        <Json value={besideTitle(approval.shown)} copy />
      </section>
      {withForm && pending && (
        <section>
          <h3>{text.form}</h3>
          <fieldset class="answer" disabled={off !== undefined}>
            <legend class="hidden">{text.form}</legend>
            <SchemaForm
              schema={approval.form as Schema}
              value={draft.value}
              onChange={(value) => (draft.value = value)}
            />
          </fieldset>
          <h3>{text.changes}</h3>
          <Diff found={changes} label={text.changes} />
        </section>
      )}
      {!pending && approval.changes.length > 0 && (
        <section>
          <h3>{text.changes}</h3>
          <Diff found={approval.changes} label={text.changes} />
        </section>
      )}
      <History approval={approval} />
      <details class="run-so-far">
        <summary>{text.run}</summary>
        <img
          src={`${base}/api/v1/runs/${encodeURIComponent(approval.run_id)}/graph.svg`}
          alt={text.run}
          loading="lazy"
        />
      </details>
      {pending && lacks("keys:admin", "approvals:decide") === undefined && (
        <p>
          <button type="button" onClick={() => (linking.value = true)}>
            {text.links.make}
          </button>
        </p>
      )}
      {linking.value && <LinksSheet approval={approval} onClose={() => (linking.value = false)} />}
      {pending && (
        <footer class="decide">
          {off !== undefined && <p class="why-not grow">{off}</p>}
          <button type="button" aria-disabled={off !== undefined} onClick={ask("delegate")}>
            {text.delegate}
          </button>
          <button type="button" class="no" aria-disabled={off !== undefined} onClick={ask("reject")}>
            {text.reject}
          </button>
          <button type="button" class="main" aria-disabled={off !== undefined} onClick={ask("approve")}>
            {text.approve}
          </button>
        </footer>
      )}
      {deciding.value && (
        <DecideSheet
          approval={approval}
          deciding={deciding.value}
          data={withForm ? draft.value : undefined}
          changes={changes}
          onClose={() => (deciding.value = undefined)}
          onSaid={(what) => {
            said.value = what;
            onDone();
          }}
        />
      )}
    </article>
  );
}

function Decided({ approval }: { approval: Details }) {
  const text = words.approvals;
  const decision = approval.decision ?? "cancelled";
  const group = decision === "approve" ? "good" : decision === "reject" ? "bad" : "stopped";
  return (
    <p class="reason" data-group={group}>
      <Foreign text={text.decidedLine(text.decisions[decision], approval.decided_by ?? "")} />
      <a class="button" href={href(`/runs/${encodeURIComponent(approval.run_id)}`)}>
        {text.openRun}
      </a>
    </p>
  );
}

function History({ approval }: { approval: Details }) {
  const text = words.approvals;
  const { ballots, delegations, notification } = approval;
  return (
    <section>
      <h3>{text.history}</h3>
      {ballots.length + delegations.length === 0 && <p class="soft">{text.noVotes}</p>}
      <ul class="ballots">
        {delegations.map((one) => (
          <li key={`${one.at} ${one.to}`}>
            <Foreign text={text.delegated(one.by, one.approver, one.to)} />{" "}
            <span class="soft">
              <Moment at={one.at} />
            </span>
            {one.comments && (
              <p>
                <Foreign text={one.comments} />
              </p>
            )}
          </li>
        ))}
        {ballots.map((one) => (
          <li key={`${one.at} ${one.by}`}>
            <StateMark state={one.decision === "approve" ? "completed" : "failed"} small />{" "}
            <Foreign text={text.voted(one.by, text.decisions[one.decision])} />{" "}
            {one.for !== one.by && <Foreign text={text.votedFor(one.for)} className="soft" />}{" "}
            <span class="soft">
              <Moment at={one.at} />
            </span>
            {one.comments && (
              <p>
                <Foreign text={one.comments} />
              </p>
            )}
          </li>
        ))}
      </ul>
      {notification && (
        <p class="soft">
          {text.told[notification.state]} {notification.last_error && <Foreign text={notification.last_error} />}
        </p>
      )}
    </section>
  );
}
