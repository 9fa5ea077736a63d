// The audit: who did what, and the proof that no entry was changed.
import { useSignal } from "@preact/signals";
import { call, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { CopyButton, Empty, Foreign, Loading, Moment } from "../../kit/basics.tsx";
import { Json } from "../../kit/Json.tsx";
import { Problem } from "../../kit/problem.tsx";
import { change, place } from "../../router.ts";
import { number } from "../../words/en.ts";
import { operators } from "../../words/operators.ts";

type Entry = Schemas["AuditEntry"];
const FILTERS = ["principal", "action", "object"] as const;

export function Audit() {
  const text = operators.admin.audit;
  const asked = Object.fromEntries(FILTERS.map((name) => [name, place.value.query.get(name) || undefined]));
  const found = useLoad(JSON.stringify(asked), (signal) =>
    call("GET /api/v1/audit", { query: { ...asked, limit: 100 } as never, signal }),
  );
  const more = useSignal<Entry[]>([]);
  const cursor = useSignal<string | null | undefined>(undefined);
  const first = found.data.value;
  const next = cursor.value === undefined ? first?.next_cursor : cursor.value;
  const readMore = async () => {
    const page = await call("GET /api/v1/audit", { query: { ...asked, limit: 100, cursor: next } as never });
    more.value = [...more.value, ...page.items];
    cursor.value = page.next_cursor;
  };
  return (
    <>
      <Verify />
      <form class="fields" onSubmit={(event) => event.preventDefault()}>
        {FILTERS.map((name) => (
          <label key={name}>
            <span>{text.columns[name]}</span>
            <input
              type="search"
              value={asked[name] ?? ""}
              onChange={(event) => change({ [name]: event.currentTarget.value.trim() })}
            />
          </label>
        ))}
      </form>
      {first === undefined ? (
        found.error.value === undefined ? (
          <Loading rows={8} onStop={found.stop} />
        ) : (
          <Problem error={found.error.value} onRetry={found.reload} />
        )
      ) : first.items.length === 0 ? (
        FILTERS.some((name) => asked[name]) ? (
          <Empty title={text.none} />
        ) : (
          <Empty title={text.empty}>
            <p>{text.emptyText}</p>
          </Empty>
        )
      ) : (
        <>
          <div class="scroller">
            <Table items={[...first.items, ...more.value]} />
          </div>
          {next && (
            <p>
              <button type="button" onClick={() => void readMore().catch(() => {})}>
                {text.more}
              </button>
            </p>
          )}
        </>
      )}
    </>
  );
}

function Verify() {
  const text = operators.admin.audit;
  const verdict = useSignal<Schemas["AuditVerdict"] | undefined>(undefined);
  const error = useSignal<unknown>(undefined);
  const verify = async () => {
    error.value = undefined;
    try {
      verdict.value = await call("GET /api/v1/audit/verify");
    } catch (caught) {
      error.value = caught;
    }
  };
  const said = verdict.value;
  return (
    <>
      <p class="buttons">
        <button type="button" onClick={verify}>
          {text.verify}
        </button>
      </p>
      {error.value !== undefined && <Problem error={error.value} />}
      {said && (
        <div class="notice" data-group={said.intact ? "good" : "bad"} role="status">
          {said.intact ? (
            <p>
              {text.intact(said.entries)} {said.head && text.head} <code>{said.head}</code>{" "}
              {said.head && <CopyButton text={said.head} />}
            </p>
          ) : (
            <p>
              {text.broken(said.broken_seq ?? 0)} <Foreign text={said.problem} />
            </p>
          )}
        </div>
      )}
    </>
  );
}

function Table({ items }: { items: Entry[] }) {
  const { columns } = operators.admin.audit;
  const open = useSignal<number | undefined>(undefined);
  return (
    <div class="scroller" role="group" aria-label={operators.admin.parts.audit} tabIndex={0}>
      <table class="ops-table">
        <caption class="hidden">{operators.admin.parts.audit}</caption>
        <thead>
          <tr>
            <th scope="col">{columns.seq}</th>
            <th scope="col">{columns.at}</th>
            <th scope="col">{columns.principal}</th>
            <th scope="col">{columns.action}</th>
            <th scope="col">{columns.object}</th>
          </tr>
        </thead>
        <tbody>
          {items.map((one) => (
            <>
              <tr key={one.seq}>
                <td>
                  <button
                    type="button"
                    class="disclose number"
                    aria-expanded={open.value === one.seq}
                    onClick={() => (open.value = open.value === one.seq ? undefined : one.seq)}
                  >
                    {number(one.seq)}
                  </button>
                </td>
                <td>
                  <Moment at={one.at} />
                </td>
                <td>
                  <Foreign text={one.principal} />
                </td>
                <td>
                  <code>{one.action}</code>
                </td>
                <td>
                  <Foreign text={one.object} className="id" />
                </td>
              </tr>
              {open.value === one.seq && (
                <tr class="opened">
                  <td colSpan={5}>
                    <Json value={{ ...one.detail, request_id: one.request_id, hash: one.hash }} />
                  </td>
                </tr>
              )}
            </>
          ))}
        </tbody>
      </table>
    </div>
  );
}
