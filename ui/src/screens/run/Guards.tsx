// Each call of a tool that agents of the run wanted to make: what was decided, by which rule, with what the agent had read, and by whom.
import { useSignal } from "@preact/signals";
import { call, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Foreign, Loading } from "../../kit/basics.tsx";
import { Json } from "../../kit/Json.tsx";
import { Problem } from "../../kit/problem.tsx";
import { groupOf } from "../../kit/states.ts";
import { change, href } from "../../router.ts";
import { costs } from "../../words/costs.ts";
import { transcript } from "../../words/transcript.ts";
import type { RunStore } from "./store.ts";

type Call = Schemas["GuardedCall"];
type Verdict = "allow" | "ask" | "deny" | "invalid";

const PAGE = 100;

export function Guards({ store }: { store: RunStore }) {
  const text = costs.guards;
  const verdict = useSignal("");
  const query = { run: store.runId, verdict: (verdict.value || undefined) as Verdict | undefined, limit: PAGE };
  const again = store.readings.value;
  const loaded = useLoad(verdict.value, (signal) => call("GET /api/v1/guards", { query, signal }), again);
  const found = loaded.data.value;
  if (loaded.error.value !== undefined && !found) return <Problem error={loaded.error.value} onRetry={loaded.reload} />;
  // A run without agents has no calls to decide about: nothing is said of them.
  if (!verdict.value && !found?.items.length) return null;
  return (
    <section class="card">
      <div class="head">
        <h2>{text.title}</h2>
        <label class="pick">
          <span>{text.filter}</span>
          <select value={verdict.value} onChange={(event) => (verdict.value = event.currentTarget.value)}>
            <option value="">{text.any}</option>
            {Object.entries(transcript.verdicts).map(([one, said]) => (
              <option key={one} value={one}>
                {said}
              </option>
            ))}
          </select>
        </label>
      </div>
      {!found ? (
        <Loading rows={2} />
      ) : found.items.length === 0 ? (
        <p class="soft">{text.none}</p>
      ) : (
        <Table key={verdict.value} page={found} query={query} />
      )}
    </section>
  );
}

interface Shown {
  readonly page: Schemas["GuardPage"];
  readonly query: { readonly run: string; readonly verdict: Verdict | undefined; readonly limit: number };
}

function Table({ page, query }: Shown) {
  const text = costs.guards;
  const { columns } = text;
  const more = useSignal<readonly Call[]>([]);
  const cursor = useSignal<string | null | undefined>(undefined);
  const open = useSignal("");
  const next = cursor.value === undefined ? page.next_cursor : cursor.value;
  const readMore = async () => {
    const found = await call("GET /api/v1/guards", { query: { ...query, cursor: next ?? undefined } });
    more.value = [...more.value, ...found.items];
    cursor.value = found.next_cursor;
  };
  return (
    <>
      <div class="scroller" role="group" aria-label={text.title} tabIndex={0}>
        <table class="ops-table">
          <caption class="hidden">{text.title}</caption>
          <thead>
            <tr>
              <th scope="col">{columns.tool}</th>
              <th scope="col">{columns.node}</th>
              <th scope="col">{columns.verdict}</th>
              <th scope="col">{columns.outcome}</th>
            </tr>
          </thead>
          <tbody>
            {[...page.items, ...more.value].map((one) => {
              const key = `${one.node} ${one.visit} ${one.item} ${one.call}`;
              const isOpen = open.value === key;
              return <Row key={key} one={one} isOpen={isOpen} onToggle={() => (open.value = isOpen ? "" : key)} />;
            })}
          </tbody>
        </table>
      </div>
      {next && (
        <p>
          <button type="button" onClick={() => void readMore().catch(() => {})}>
            {text.more}
          </button>
        </p>
      )}
    </>
  );
}

function Row({ one, isOpen, onToggle }: { one: Call; isOpen: boolean; onToggle: () => void }) {
  const verdict = one.verdict ?? "";
  return (
    <>
      <tr>
        <td>
          <button
            type="button"
            class="disclose"
            aria-expanded={isOpen}
            aria-label={costs.guards.open(one.tool)}
            onClick={onToggle}
          >
            <Foreign text={one.tool} className="id" />
          </button>
        </td>
        <td>
          <button type="button" class="disclose" onClick={() => change({ node: one.node })}>
            <Foreign text={one.node} />
          </button>
          <div class="soft small">{transcript.turn(one.turn)}</div>
        </td>
        <td>
          {verdict ? (
            <span class="state small" data-group={groupOf(verdict)}>
              {transcript.verdicts[verdict] ?? verdict}
            </span>
          ) : (
            <span class="soft">{transcript.open}</span>
          )}
          {one.why && (
            <div class="soft small">
              <Foreign text={one.why} />
            </div>
          )}
        </td>
        <td>
          {one.outcome ? (transcript.outcomes[one.outcome] ?? one.outcome) : transcript.open}
          {one.decision && (
            <div class="soft small">
              <Foreign
                text={transcript.decided(one.decision, typeof one.decided_by === "string" ? one.decided_by : "")}
              />
            </div>
          )}
          {one.not_made && (
            <div class="bad small">
              <Foreign text={one.not_made} />
            </div>
          )}
        </td>
      </tr>
      {isOpen && (
        <tr class="opened">
          <td colSpan={4}>
            <Details one={one} />
          </td>
        </tr>
      )}
    </>
  );
}

function Details({ one }: { one: Call }) {
  const text = costs.guards;
  return (
    <div class="details">
      {one.trifecta && <p class="bad">{transcript.trifecta}</p>}
      <p class="soft">
        <Foreign
          text={[
            one.rule && transcript.rule(one.rule),
            text.read(one.label),
            one.untrusted.length > 0 && text.untrusted(one.untrusted.join(", ")),
          ]
            .filter(Boolean)
            .join(" · ")}
        />
      </p>
      <h3>{transcript.arguments}</h3>
      <Json value={one.arguments} copy />
      {one.changed !== undefined && (
        <>
          <h3>{transcript.changed}</h3>
          <Json value={one.changed} copy />
        </>
      )}
      {one.comments && (
        <p>
          <Foreign text={one.comments} />
        </p>
      )}
      {one.approval_id && <a href={href(`/approvals/${encodeURIComponent(one.approval_id)}`)}>{transcript.approval}</a>}
      {one.run_id && <a href={href(`/runs/${encodeURIComponent(one.run_id)}`)}>{transcript.child}</a>}
    </div>
  );
}
