// Many runs at once: counted, then done with that count. If it is another one by then, nothing is done and the new one is shown.
import { useSignal } from "@preact/signals";
import { call, now, Refused, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Foreign, Loading, StateMark } from "../../kit/basics.tsx";
import { CopyAs } from "../../kit/CopyAs.tsx";
import { Field, Refusal, Sheet } from "../../kit/Sheet.tsx";
import { lacks } from "../../shell/me.ts";
import { runs as words } from "../../words/runs.ts";
import { type Filter, toConditions } from "./filter.ts";
import type { Run } from "./list.ts";

export type BulkAction = "cancel" | "pause" | "resume" | "retry" | "rollback";

export interface Given {
  readonly action: BulkAction;
  /** The runs; undefined: all that match the filter. */
  readonly ids: readonly string[] | undefined;
  readonly filter: Filter;
  readonly rows: readonly Run[];
  readonly onClose: () => void;
}

const FEW = 10;
const HARMFUL: readonly BulkAction[] = ["cancel", "rollback"];
const REASONS: readonly BulkAction[] = ["cancel", "pause", "retry"];

export function BulkSheet({ action, ids, filter, rows, onClose }: Given) {
  const text = words.bulk;
  const reason = useSignal("");
  const was = useSignal<number | undefined>(undefined);
  const result = useSignal<Schemas["ManyRunsChanged"] | undefined>(undefined);
  // Times that are counted back from now must mean the same when it is done.
  const at = useSignal(now()).value;
  const which = ids ? { run_ids: [...ids] } : { where: conditionsOf(filter, at) };
  const ask = (expected: number | undefined, signal?: AbortSignal) =>
    call("POST /api/v1/runs/bulk", {
      body: { action, ...which, expected: expected ?? null, reason: reason.value } as never,
      signal,
    });
  const counted = useLoad(action, (signal) => ask(undefined, signal));
  const count = counted.data.value?.matched;
  const act = async () => {
    try {
      result.value = await ask(count ?? 0);
    } catch (error) {
      if (!(error instanceof Refused) || error.problem.status !== 409) throw error;
      was.value = count;
      counted.reload();
    }
  };
  const found = result.value;
  const shown = ids ? rows.filter((one) => ids.includes(one.run_id)) : rows;
  return (
    <Sheet
      title={count === undefined ? text.counting : text.titles[action](count)}
      verb={text.actions[action]}
      harmful={HARMFUL.includes(action)}
      onClose={onClose}
      onDo={act}
      whyNot={lacks("runs:operate") ?? (count === undefined ? text.counting : count === 0 ? text.noneMatch : undefined)}
      done={found ? <Done found={found} /> : undefined}
    >
      <p>
        {text.does[action]} {text.text}
      </p>
      {count === undefined && counted.error.value === undefined && <Loading rows={1} />}
      {counted.error.value !== undefined && <Refusal error={counted.error.value} />}
      {was.value !== undefined && count !== undefined && !found && (
        <p class="why-not" role="alert">
          {text.changed(was.value, count)}
        </p>
      )}
      {!found && count !== undefined && (
        <>
          <section class="next" aria-label={text.first}>
            <h3>{text.first}</h3>
            <ul class="firsts">
              {shown.slice(0, Math.min(FEW, count)).map((one) => (
                <li key={one.run_id}>
                  <StateMark small state={one.state} waiting={one.waiting} /> <Foreign text={one.workflow} />{" "}
                  <Foreign text={one.run_id} className="id" />
                </li>
              ))}
              {count > FEW && <li class="soft">{text.more(count - FEW)}</li>}
            </ul>
          </section>
          {REASONS.includes(action) && (
            <Field label={text.reason} hint={text.reasonHint}>
              {(named) => (
                <input
                  {...named}
                  type="text"
                  maxLength={2000}
                  value={reason.value}
                  onInput={(event) => (reason.value = event.currentTarget.value)}
                />
              )}
            </Field>
          )}
          <CopyAs
            doing={{
              method: "POST",
              path: "/api/v1/runs/bulk",
              body: { action, ...which, expected: count, reason: reason.value || undefined },
              python: ["runs.bulk", [action], { ...which, expected: count, reason: reason.value || undefined }],
            }}
          />
        </>
      )}
    </Sheet>
  );
}

/** Without what is not given: the server takes no null for a condition. */
function conditionsOf(filter: Filter, at: number): Record<string, unknown> {
  const found = Object.entries(toConditions(filter, at)).filter(([, value]) => value !== undefined);
  return Object.fromEntries(found.map(([name, value]) => [name, name === "version" ? Number(value) : value]));
}

function Done({ found }: { found: Schemas["ManyRunsChanged"] }) {
  const text = words.bulk;
  return (
    <div role="status">
      <p>{text.done(found.done)}</p>
      {found.refused.length > 0 && (
        <>
          <p>{text.refused(found.refused.length)}</p>
          <ul class="refused">
            {found.refused.slice(0, 50).map((one) => (
              <li key={one.run_id}>
                <Foreign text={one.run_id} className="id" /> <Foreign text={one.message} />
              </li>
            ))}
            {found.refused.length > 50 && <li class="soft">{text.more(found.refused.length - 50)}</li>}
          </ul>
        </>
      )}
    </div>
  );
}
