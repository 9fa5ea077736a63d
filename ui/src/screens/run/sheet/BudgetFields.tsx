// A larger budget for a run whose own is used up: each limit beside what was used of it.
import type { Signal } from "@preact/signals";
import { useSignal } from "@preact/signals";
import { call, type Schemas } from "../../../api/call.ts";
import { useLoad } from "../../../api/load.ts";
import { Field } from "../../../kit/Sheet.tsx";
import { costs } from "../../../words/costs.ts";
import { number } from "../../../words/en.ts";
import { type Amounts, KINDS, type Kind, readAmounts } from "../../costs/amounts.ts";

export interface BudgetGiven {
  readonly budget: Readonly<Record<string, number>> | undefined;
  readonly problem?: string | undefined;
}

function usedOf({ total, budget }: Schemas["RunUsage"], kind: Kind): string {
  const used = { usd: total.usd, tokens: total.input + total.output, calls: total.calls }[kind];
  const most = budget?.[kind];
  const say = kind === "usd" ? costs.dollars : number;
  return most === undefined ? say(used) : costs.run.of(say(used), say(most));
}

export function BudgetFields({ runId, given }: { runId: string; given: Signal<BudgetGiven> }) {
  const text = costs.given;
  const typed = useSignal<Amounts>({});
  const loaded = useLoad(runId, (signal) =>
    call("GET /api/v1/runs/{run_id}/usage", { path: { run_id: runId }, signal }),
  );
  const usage = loaded.data.value;
  return (
    <fieldset class="amounts">
      <legend>{text.title}</legend>
      <p class="soft">{text.hint}</p>
      <div class="amounts-row">
        {KINDS.map((kind) => (
          <Field key={kind} label={costs.budgets.kinds[kind]} hint={usage && usedOf(usage, kind)}>
            {(named) => (
              <input
                {...named}
                type="text"
                inputMode="decimal"
                autocomplete="off"
                value={typed.value[kind] ?? ""}
                onInput={(event) => {
                  typed.value = { ...typed.value, [kind]: event.currentTarget.value };
                  const { found, problem } = readAmounts(typed.value);
                  given.value = { budget: Object.keys(found).length > 0 ? found : undefined, problem };
                }}
              />
            )}
          </Field>
        ))}
      </div>
    </fieldset>
  );
}
