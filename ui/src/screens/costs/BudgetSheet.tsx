// Set a budget: of what, in which period, and how much of each.
import { useSignal } from "@preact/signals";
import { useId } from "preact/hooks";
import { call, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { CopyAs } from "../../kit/CopyAs.tsx";
import { Field, Sheet } from "../../kit/Sheet.tsx";
import { lacks } from "../../shell/me.ts";
import { costs } from "../../words/costs.ts";
import { type Amounts, budgetDoing, KINDS, readAmounts } from "./amounts.ts";

type Budget = Schemas["Budget"];
type Per = "day" | "month";

const before = (one: Budget | undefined): Amounts =>
  Object.fromEntries(KINDS.map((kind) => [kind, one?.[kind] === null || !one ? "" : String(one[kind])]));

export function BudgetSheet({ one, onClose }: { one: Budget | undefined; onClose: () => void }) {
  const text = costs.budgets;
  const { fields } = text;
  const list = useId();
  const isOfTenant = useSignal(one === undefined || one.scope === "tenant");
  const workflow = useSignal(one?.scope.startsWith("workflow:") ? one.scope.slice("workflow:".length) : "");
  const per = useSignal<Per>(one?.per ?? "month");
  const typed = useSignal<Amounts>(before(one));
  const share = useSignal(one ? String(Math.round(one.share * 1000) / 10) : "");
  const known = useLoad("workflows", (signal) => call("GET /api/v1/workflows", { query: { limit: 200 }, signal }));
  const scope = isOfTenant.value ? "tenant" : `workflow:${workflow.value.trim()}`;
  const amounts = readAmounts(typed.value);
  const percent = share.value.trim();
  const part = /^\d{1,3}(\.\d)?$/.test(percent) ? Number(percent) / 100 : undefined;
  const body = { ...amounts.found, per: per.value, ...(part === undefined ? {} : { share: part }) };
  const problem =
    amounts.problem ??
    (!isOfTenant.value && !workflow.value.trim()
      ? text.needsWorkflow
      : Object.keys(amounts.found).length === 0
        ? text.needs
        : percent && !(part && part <= 1)
          ? `${fields.share}: ${text.badNumber}`
          : undefined);
  const act = async () => {
    await call("PUT /api/v1/budgets/{scope}", { path: { scope }, body: body as never });
    onClose();
  };
  return (
    <Sheet
      title={text.titles.set}
      verb={text.verbs.set}
      onClose={onClose}
      onDo={act}
      whyNot={lacks("costs:write") ?? problem}
    >
      <p>{text.does.set}</p>
      {one === undefined && (
        <Field label={fields.scope}>
          {(named) => (
            <select
              {...named}
              value={isOfTenant.value ? "tenant" : "workflow"}
              onChange={(event) => (isOfTenant.value = event.currentTarget.value === "tenant")}
            >
              <option value="tenant">{text.tenant}</option>
              <option value="workflow">{fields.workflow}</option>
            </select>
          )}
        </Field>
      )}
      {!isOfTenant.value && (
        <Field label={fields.workflow}>
          {(named) => (
            <>
              <input
                {...named}
                type="text"
                list={list}
                maxLength={200}
                disabled={one !== undefined}
                value={workflow.value}
                onInput={(event) => (workflow.value = event.currentTarget.value)}
              />
              <datalist id={list}>
                {known.data.value?.items.map((found) => (
                  <option key={found.name} value={found.name} />
                ))}
              </datalist>
            </>
          )}
        </Field>
      )}
      <Field label={fields.per}>
        {(named) => (
          <select {...named} value={per.value} onChange={(event) => (per.value = event.currentTarget.value as Per)}>
            {Object.entries(text.per).map(([name, said]) => (
              <option key={name} value={name}>
                {said}
              </option>
            ))}
          </select>
        )}
      </Field>
      <div class="amounts-row">
        {KINDS.map((kind) => (
          <Field key={kind} label={fields[kind]}>
            {(named) => (
              <input
                {...named}
                type="text"
                inputMode="decimal"
                autocomplete="off"
                placeholder={fields.amountHint}
                value={typed.value[kind] ?? ""}
                onInput={(event) => (typed.value = { ...typed.value, [kind]: event.currentTarget.value })}
              />
            )}
          </Field>
        ))}
      </div>
      <Field label={fields.share} hint={fields.shareHint}>
        {(named) => (
          <input
            {...named}
            type="text"
            inputMode="decimal"
            autocomplete="off"
            value={share.value}
            onInput={(event) => (share.value = event.currentTarget.value)}
          />
        )}
      </Field>
      <CopyAs doing={budgetDoing(scope, body)} />
    </Sheet>
  );
}
