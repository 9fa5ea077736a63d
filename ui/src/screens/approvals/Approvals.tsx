// Approvals: what waits for a person on one side, one of them with all that it is about on the other. On a phone one at a time.
import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { call, now, type Schemas } from "../../api/call.ts";
import { pulse, useLoad } from "../../api/load.ts";
import { Empty, Foreign, Loading, Moment } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { cut } from "../../kit/text.ts";
import { ticks } from "../../kit/ticks.ts";
import { change, go, href, place } from "../../router.ts";
import { onKeys } from "../../shell/keys.ts";
import { nextTry } from "../../shell/Shell.tsx";
import { words as general } from "../../words/en.ts";
import { words } from "../../words/people.ts";
import { Detail } from "./Detail.tsx";
import { SeveralSheet } from "./SeveralSheet.tsx";
import { shownLine, titleIn } from "./title.ts";

export type Approval = Schemas["Approval"];

const POLL_SECONDS = 5;
const PAGE = 100;

/** Those that I may decide first, and of these the next to expire; then the others, in the order they came. */
export function inOrder(found: readonly Approval[]): Approval[] {
  const rank = (one: Approval) => (one.can_decide ? 0 : 1);
  const ends = (one: Approval) => one.expires_at ?? Number.POSITIVE_INFINITY;
  return found.toSorted((one, two) => rank(one) - rank(two) || compare(ends(one), ends(two)));
}

const compare = (one: number, two: number): number => (one === two ? 0 : one < two ? -1 : 1);

export default function Approvals({ names }: { names: Readonly<Record<string, string>> }) {
  const chosen = names.approval_id ?? "";
  const text = words.approvals;
  const { query } = place.value;
  const state = query.get("state") === "decided" ? "decided" : "pending";
  const mine = query.get("mine") === "1";
  const workflow = query.get("workflow") ?? "";
  const limit = useSignal(PAGE);
  const key = `${state} ${mine} ${workflow} ${limit.value}`;
  const loaded = useLoad(key, (signal) =>
    call("GET /api/v1/approvals", {
      query: { state, mine: mine || undefined, workflow: workflow || undefined, limit: limit.value },
      signal,
    }),
  );
  const shown = useRef<{ key: string; items: readonly Approval[]; more: boolean }>({ key: "", items: [], more: false });
  if (loaded.data.value) {
    const page = loaded.data.value;
    shown.current = { key, items: inOrder(page.items), more: page.next_cursor !== null };
  }
  useEffect(() => {
    document.title = `${text.title} · ${general.product}`;
    const polling = pulse(
      POLL_SECONDS,
      async () => loaded.reload(),
      (seconds) => {
        nextTry.value = seconds;
      },
    );
    return () => polling.stop();
  }, []);
  const { items } = shown.current;
  const several = useSeveral(items);
  const isRead = shown.current.key === key;
  const at = items.findIndex((one) => one.approval_id === chosen);
  const open = (index: number) => {
    const one = items[Math.max(0, Math.min(items.length - 1, index))];
    if (one) go(to(one.approval_id, query));
  };
  useLayoutEffect(() => onKeys({ j: () => open(at + 1), k: () => open(at - 1) }), [items, at]);
  return (
    <section class={chosen ? "screen two-panes opened" : "screen two-panes"}>
      <div class="pane-list">
        <header class="head">
          <h1>{text.title}</h1>
          <p class="soft number" role="status">
            {isRead && items.length > 0 && text.count(items.length, shown.current.more)}
          </p>
        </header>
        <Filters state={state} mine={mine} workflow={workflow} />
        {state === "pending" && <Verbs several={several} onDone={loaded.reload} />}
        {isRead && items.length > 0 ? (
          <>
            <ul class="approval-cards" aria-label={text.list}>
              {items.map((one) => (
                <Card
                  key={one.approval_id}
                  approval={one}
                  chosen={one.approval_id === chosen}
                  query={query}
                  several={several}
                />
              ))}
            </ul>
            {shown.current.more && (
              <button type="button" onClick={() => (limit.value = Math.min(1000, limit.value + PAGE * 3))}>
                {text.more}
              </button>
            )}
          </>
        ) : isRead ? (
          <Empty title={state === "pending" && !mine && !workflow ? text.none.title : text.none.filtered}>
            <p>{state === "decided" ? text.none.decided : text.none.text}</p>
          </Empty>
        ) : loaded.error.value !== undefined ? (
          <Problem error={loaded.error.value} onRetry={loaded.reload} />
        ) : (
          <Loading rows={6} />
        )}
      </div>
      <div class="pane-detail">
        {chosen ? (
          <Detail
            key={chosen}
            approvalId={chosen}
            next={items.find((one) => one.can_decide && one.approval_id !== chosen)?.approval_id}
            onDone={loaded.reload}
          />
        ) : (
          items.length > 0 && <p class="soft choose">{text.choose}</p>
        )}
      </div>
    </section>
  );
}

interface Several {
  /** Undefined: nobody asked to decide several at once. */
  readonly picked: Signal<ReadonlySet<string> | undefined>;
  readonly chosen: readonly Approval[];
  readonly fits: (one: Approval) => boolean;
}

const nodeOf = (one: Approval): string => `${one.workflow} ${one.node}`;

/** Those that are picked are of one node: what is decided about them means the same. */
function useSeveral(items: readonly Approval[]): Several {
  const picked = useSignal<ReadonlySet<string> | undefined>(undefined);
  const chosen = items.filter((one) => picked.value?.has(one.approval_id));
  const first = chosen[0];
  const fits = (one: Approval) =>
    one.state === "pending" && one.can_decide !== false && (!first || nodeOf(first) === nodeOf(one));
  return { picked, chosen, fits };
}

function Verbs({ several, onDone }: { several: Several; onDone: () => void }) {
  const text = words.approvals.several;
  const { picked, chosen } = several;
  const deciding = useSignal<"approve" | "reject" | undefined>(undefined);
  if (!picked.value)
    return (
      <button type="button" class="quiet start" onClick={() => (picked.value = new Set())}>
        {text.begin}
      </button>
    );
  const off = chosen.length === 0 ? text.needs : undefined;
  const ask = (what: "approve" | "reject") => () => {
    if (off === undefined) deciding.value = what;
  };
  return (
    <div class="bar" role="toolbar" aria-label={text.begin}>
      <span class="soft number" role="status">
        {chosen.length > 0 ? text.chosen(chosen.length) : text.needs}
      </span>
      <button type="button" aria-disabled={off !== undefined} title={off} onClick={ask("approve")}>
        {words.approvals.approve}
      </button>
      <button type="button" aria-disabled={off !== undefined} title={off} onClick={ask("reject")}>
        {words.approvals.reject}
      </button>
      <button type="button" class="quiet" onClick={() => (picked.value = undefined)}>
        {general.cancel}
      </button>
      {deciding.value && (
        <SeveralSheet
          chosen={chosen}
          decision={deciding.value}
          onClose={() => {
            deciding.value = undefined;
            picked.value = undefined;
            onDone();
          }}
        />
      )}
    </div>
  );
}

function to(id: string, query: URLSearchParams): string {
  const text = query.toString();
  return href(`/approvals/${encodeURIComponent(id)}`) + (text ? `?${text}` : "");
}

function Filters({ state, mine, workflow }: { state: "pending" | "decided"; mine: boolean; workflow: string }) {
  const text = words.approvals;
  return (
    <div class="bar" role="search">
      <select
        aria-label={text.state}
        value={state}
        onChange={(event) =>
          change({ state: event.currentTarget.value === "decided" ? "decided" : undefined, mine: undefined })
        }
      >
        <option value="pending">{text.states.pending}</option>
        <option value="decided">{text.states.decided}</option>
      </select>
      <input
        type="search"
        aria-label={text.workflow}
        placeholder={text.workflow}
        value={workflow}
        onChange={(event) => change({ workflow: event.currentTarget.value.trim() || undefined })}
      />
      {state === "pending" && (
        <label class="check">
          <input
            type="checkbox"
            checked={mine}
            onChange={(event) => change({ mine: event.currentTarget.checked ? "1" : undefined })}
          />
          {text.mine}
        </label>
      )}
    </div>
  );
}

interface OneCard {
  readonly approval: Approval;
  readonly chosen: boolean;
  readonly query: URLSearchParams;
  readonly several: Several;
}

function Pick({ approval, several: { picked, fits } }: { approval: Approval; several: Several }) {
  const text = words.approvals;
  const id = approval.approval_id;
  if (!picked.value) return null;
  const toggle = () => {
    const next = new Set(picked.peek());
    if (!next.delete(id)) next.add(id);
    picked.value = next;
  };
  return (
    <input
      type="checkbox"
      aria-label={text.several.pick(titleIn(approval.shown) ?? text.noTitle(approval.node))}
      checked={picked.value.has(id)}
      disabled={!fits(approval)}
      onChange={toggle}
    />
  );
}

function Card({ approval, chosen, query, several }: OneCard) {
  const text = words.approvals;
  const over = approval.expires_at !== null && (ticks.value && now()) > approval.expires_at;
  const line = shownLine(approval.shown);
  return (
    <li class={several.picked.value ? "picking" : undefined}>
      <Pick approval={approval} several={several} />
      <a class="approval" href={to(approval.approval_id, query)} aria-current={chosen ? "true" : undefined}>
        <strong>
          <Foreign text={cut(titleIn(approval.shown) ?? text.noTitle(approval.node), 120)} />
        </strong>
        <span class="soft">
          <Foreign text={approval.workflow ?? ""} /> · <Foreign text={approval.node} />
          {approval.by && (
            <>
              {" "}
              · <Foreign text={text.asks(approval.by)} />
            </>
          )}
        </span>
        {line && (
          <span class="approval-shown">
            <Foreign text={line} />
          </span>
        )}
        <span class="soft facts-line">
          {approval.state === "pending" && (
            <span>
              {text.requested} <Moment at={approval.requested_at} />
            </span>
          )}
          {approval.quorum > 1 && (
            <span>
              {text.votes(approvals(approval), approval.quorum)} {text.votesWord}
            </span>
          )}
          {approval.escalated && <span class="flag">{text.escalated}</span>}
          {approval.state === "pending" ? (
            approval.expires_at !== null && (
              <span class={over ? "flag" : undefined}>
                {over ? (
                  text.expired
                ) : (
                  <>
                    {text.expires} <Moment at={approval.expires_at} />
                  </>
                )}
              </span>
            )
          ) : (
            <span>
              {text.decidedAt} <Moment at={approval.decided_at} />
            </span>
          )}
          {approval.state === "pending" && approval.can_decide === false && approval.why_not && (
            <span>{text.whyNot[approval.why_not] ?? approval.why_not}</span>
          )}
        </span>
      </a>
    </li>
  );
}

export const approvals = (approval: { readonly votes: Readonly<Record<string, string>> }): number =>
  Object.values(approval.votes).filter((one) => one === "approve").length;
