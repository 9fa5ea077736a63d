// What needs a person now, the most urgent first. Each row leads to the list that it counts.
import type { ComponentChildren } from "preact";
import { Foreign, Icon, Moment } from "../../kit/basics.tsx";
import { isItem } from "../../kit/mailbox.ts";
import { type Group, MARKS } from "../../kit/states.ts";
import { cut } from "../../kit/text.ts";
import { href } from "../../router.ts";
import type { Overview } from "../../shell/overview.ts";
import { home as text } from "../../words/home.ts";

interface Need {
  readonly key: string;
  readonly group: Group;
  readonly to: string;
  readonly title: string;
  readonly more?: ComponentChildren;
}

export function needsOf(data: Overview): Need[] {
  return [...people(data), ...work(data), ...ends(data)];
}

function people({ approvals, dead_letters }: Overview): Need[] {
  const found: Need[] = [];
  if (approvals && approvals.total > 0) {
    const next = approvals.items[0];
    const only = approvals.total === 1 && next ? `/approvals/${encodeURIComponent(next.approval_id)}` : undefined;
    found.push({
      key: "approvals",
      group: "waits",
      to: only === undefined ? href("/approvals", { mine: "1" }) : href(only, { mine: "1" }),
      title: text.approvals(approvals.total, approvals.capped),
      more: next && (
        <>
          <Foreign text={next.node} />
          {next.workflow && (
            <>
              {" · "}
              <Foreign text={next.workflow} />
            </>
          )}
          {next.expires_at !== null && (
            <>
              {" · "}
              {text.expires} <Moment at={next.expires_at} />
            </>
          )}
        </>
      ),
    });
  }
  if (dead_letters && dead_letters.total > 0) {
    const [first, ...others] = dead_letters.groups;
    found.push({
      key: "letters",
      group: "bad",
      to: href("/dead-letters", others.length ? {} : { workflow: first?.workflow ?? undefined }),
      title: text.letters(dead_letters.total, dead_letters.capped),
      more: <Parts parts={dead_letters.groups.map(letterLine)} />,
    });
  }
  return found;
}

const letterLine = (one: NonNullable<Overview["dead_letters"]>["groups"][number]): string =>
  text.letterGroup(
    isItem(one.workflow) ? text.triggers : (one.workflow ?? text.noWorkflow),
    one.code ?? text.noCode,
    one.count,
  );

function work({ deserted, failed, paused }: Overview): Need[] {
  const found: Need[] = deserted.map((one) => ({
    key: `queue ${one.queue}`,
    group: "bad",
    to: href(`/queues/${encodeURIComponent(one.queue)}`),
    title: text.queue(one.queue),
    more: text.queueText(one.waiting),
  }));
  if (failed && failed.total > 0)
    found.push({
      key: "failed",
      group: "bad",
      to: href("/runs", { state: "failed", since: "24h", "by-end": "1" }),
      title: text.failed(failed.total, failed.capped),
      more: <Parts parts={failed.groups.map((one) => text.byWorkflow(one.workflow, one.count))} />,
    });
  if (paused && paused.total > 0)
    found.push({
      key: "paused",
      group: "waits",
      to: href("/runs", { state: "paused" }),
      title: text.paused(paused.total, paused.capped),
      more: <Parts parts={paused.groups.map((one) => text.byWorkflow(one.workflow, one.count))} />,
    });
  return found;
}

function ends({ quarantined, deadlines }: Overview): Need[] {
  const found: Need[] = (quarantined?.items ?? []).map((one) => ({
    key: `quarantined ${one.run_id}`,
    group: "bad",
    to: href(`/runs/${encodeURIComponent(one.run_id)}`),
    title: text.quarantined(one.workflow),
    more:
      quarantined && quarantined.total > quarantined.items.length ? (
        text.quarantinedMore(quarantined.total)
      ) : (
        <Foreign text={cut(one.reason, 120)} />
      ),
  }));
  for (const one of deadlines?.items ?? [])
    found.push({
      key: `deadline ${one.run_id}`,
      group: "waits",
      to: href(`/runs/${encodeURIComponent(one.run_id)}`),
      title: text.deadline(one.workflow),
      more: (
        <>
          {text.deadlineAt} <Moment at={one.deadline_at} />
          {deadlines && deadlines.total > deadlines.items.length && <> · {text.deadlineMore(deadlines.total)}</>}
        </>
      ),
    });
  return found;
}

function Parts({ parts }: { parts: readonly string[] }) {
  return (
    <>
      {parts.map((one, index) => (
        <span key={one}>
          {index > 0 && " · "}
          <Foreign text={cut(one, 80)} />
        </span>
      ))}
    </>
  );
}

export function Needs({ data }: { data: Overview }) {
  const needs = needsOf(data);
  return (
    <section class="needs" aria-labelledby="needs">
      <h2 id="needs">{text.needs}</h2>
      {needs.length === 0 ? (
        <div class="calm" data-group="good">
          <Icon path={MARKS.good} className="mark" />
          <p>
            <strong>{text.nothing}</strong>
            <span class="soft">{text.nothingText}</span>
          </p>
        </div>
      ) : (
        <ul>
          {needs.map((one) => (
            <li key={one.key}>
              <a href={one.to} data-group={one.group}>
                <Icon path={MARKS[one.group]} className="mark" />
                <strong>
                  <Foreign text={one.title} />
                </strong>
                <span class="soft">{one.more}</span>
              </a>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
