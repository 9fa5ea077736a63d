// The items that a trigger holds: those that wait, those whose runs are open, and those that could start none, with the ways out.
import { useSignal } from "@preact/signals";
import { call } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Foreign, Loading, Moment, StateMark } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { href } from "../../router.ts";
import { lacks } from "../../shell/me.ts";
import { number } from "../../words/en.ts";
import { words } from "../../words/triggers.ts";
import { At, hashOf } from "./parts.tsx";
import type { Asking } from "./sheets.tsx";
import type { Trigger } from "./spec.ts";

type State = "waiting" | "open" | "parked";
const STATES: readonly State[] = ["parked", "waiting", "open"];
const PAGE = 50;

export function Items({ trigger, turn, onAsk }: { trigger: Trigger; turn: string; onAsk: (asking: Asking) => void }) {
  const text = words.items;
  const state = useSignal<State | "">(trigger.parked > 0 ? "parked" : "");
  const limit = useSignal(PAGE);
  const { name } = trigger;
  const loaded = useLoad(
    `${name} ${state.value}`,
    (signal) =>
      call("GET /api/v1/triggers/{name}/items", {
        path: { name },
        query: { state: state.value || undefined, limit: limit.value },
        signal,
      }),
    hashOf(`${turn} ${limit.value}`),
  );
  const found = loaded.data.value;
  const off = lacks("runs:operate");
  return (
    <section class="stack">
      <div class="head">
        <h2 id="items-title">{words.sections.items}</h2>
        <label class="pick">
          <span>{text.state}</span>
          <select value={state.value} onChange={(event) => (state.value = event.currentTarget.value as State | "")}>
            <option value="">{text.any}</option>
            {STATES.map((one) => (
              <option key={one} value={one}>
                {text.states[one]} ({number(trigger[one])})
              </option>
            ))}
          </select>
        </label>
      </div>
      {!found ? (
        loaded.error.value === undefined ? (
          <Loading rows={3} />
        ) : (
          <Problem error={loaded.error.value} onRetry={loaded.reload} />
        )
      ) : found.items.length === 0 ? (
        <p class="soft">{text.noneOf}</p>
      ) : (
        <div class="scroller" role="group" aria-labelledby="items-title" tabIndex={0}>
          <table class="ops-table items-table" aria-labelledby="items-title">
            <thead>
              <tr>
                <th scope="col" class="end">
                  {text.number}
                </th>
                <th scope="col">{text.state}</th>
                <th scope="col">{text.came}</th>
                <th scope="col">{text.why}</th>
                <th scope="col">
                  <span class="hidden">{words.verbs.requeue}</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {found.items.map((one) => (
                <tr key={one.number}>
                  <td class="number end">{number(one.number)}</td>
                  <td>
                    <StateMark state={one.state === "open" ? "running" : one.state} small />
                  </td>
                  <td class="nowrap">{one.at === null ? words.none.nothing : <Moment at={one.at} />}</td>
                  <td>
                    {one.error ? (
                      <>
                        <code>{one.error.code}</code> <Foreign text={one.error.message ?? ""} />
                      </>
                    ) : one.moment !== null ? (
                      <>
                        {words.history.moment("")}
                        <At at={one.moment} trigger={trigger} />
                      </>
                    ) : (
                      <Foreign text={one.key || one.id || ""} className="id soft" />
                    )}
                  </td>
                  <td class="end">
                    {one.state === "parked" && (
                      <span class="row-buttons">
                        <button
                          type="button"
                          aria-disabled={off !== undefined}
                          title={off}
                          onClick={() => off === undefined && onAsk({ verb: "discard", item: one })}
                        >
                          {words.verbs.discard}
                        </button>
                        <button
                          type="button"
                          aria-disabled={off !== undefined}
                          title={off}
                          onClick={() => off === undefined && onAsk({ verb: "requeue", item: one })}
                        >
                          {words.verbs.requeue}
                        </button>
                      </span>
                    )}
                    {one.state === "open" && <a href={href(`/runs/${encodeURIComponent(one.run_id)}`)}>{text.run}</a>}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {found?.next_cursor && limit.value < 1000 && (
        <button type="button" class="quiet start" onClick={() => (limit.value = Math.min(1000, limit.value * 4))}>
          {text.more}
        </button>
      )}
    </section>
  );
}
