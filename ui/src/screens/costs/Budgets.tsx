// Budgets of the tenant and of its workflows: how much of each is used in its period, and what sets, changes and deletes them.
import { useSignal } from "@preact/signals";
import { call, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Empty, Foreign, Loading, Moment } from "../../kit/basics.tsx";
import { CopyAs } from "../../kit/CopyAs.tsx";
import { Problem } from "../../kit/problem.tsx";
import { Sheet } from "../../kit/Sheet.tsx";
import { href } from "../../router.ts";
import { lacks } from "../../shell/me.ts";
import { costs } from "../../words/costs.ts";
import { number } from "../../words/en.ts";
import { KINDS } from "./amounts.ts";
import { BudgetSheet } from "./BudgetSheet.tsx";
import { Limit } from "./Limit.tsx";

type Budget = Schemas["Budget"];

const OF_WORKFLOW = "workflow:";

/** The sheet that is open; without `one` it is for a budget that is not there yet. */
type Opened = { readonly one: Budget | undefined; readonly what: "set" | "remove" };

export function Budgets() {
  const text = costs.budgets;
  const found = useLoad("budgets", (signal) => call("GET /api/v1/budgets", { signal }));
  const opened = useSignal<Opened | undefined>(undefined);
  const off = lacks("costs:write");
  const items = found.data.value?.items;
  const close = () => {
    opened.value = undefined;
    found.reload();
  };
  return (
    <>
      <div class="bar">
        <button
          type="button"
          class="primary"
          aria-disabled={off !== undefined}
          title={off}
          onClick={() => {
            if (off === undefined) opened.value = { one: undefined, what: "set" };
          }}
        >
          {text.set}
        </button>
      </div>
      {!items ? (
        found.error.value === undefined ? (
          <Loading rows={3} onStop={found.stop} />
        ) : (
          <Problem error={found.error.value} onRetry={found.reload} />
        )
      ) : items.length === 0 ? (
        <Empty title={text.none.title}>
          <p>{text.none.text}</p>
        </Empty>
      ) : (
        <Table items={items} off={off} onOpen={(one, what) => (opened.value = { one, what })} />
      )}
      {opened.value?.what === "set" && <BudgetSheet one={opened.value.one} onClose={close} />}
      {opened.value?.what === "remove" && opened.value.one && <RemoveSheet one={opened.value.one} onClose={close} />}
    </>
  );
}

interface Shown {
  readonly items: readonly Budget[];
  readonly off: string | undefined;
  readonly onOpen: (one: Budget, what: "set" | "remove") => void;
}

function Table({ items, off, onOpen }: Shown) {
  const text = costs.budgets;
  const { columns } = text;
  return (
    <div class="scroller" role="group" aria-label={costs.parts.budgets} tabIndex={0}>
      <table class="ops-table">
        <caption class="hidden">{costs.parts.budgets}</caption>
        <thead>
          <tr>
            <th scope="col">{columns.scope}</th>
            <th scope="col">{columns.used}</th>
            <th scope="col">{columns.reserved}</th>
            <th scope="col">{columns.ends}</th>
            <th scope="col">
              <span class="hidden">{text.change}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {items.map((one) => (
            <tr key={one.scope}>
              <td>
                <Scope scope={one.scope} />
                <div class="soft small whole">{text.per[one.per]}</div>
                {one.share < 1 && <div class="soft small whole">{text.share(Math.round(one.share * 1000) / 10)}</div>}
              </td>
              <td>
                <Limits one={one} />
              </td>
              <td class="number small">
                <Reserved one={one} />
              </td>
              <td>
                <Moment at={one.ends_at} />
              </td>
              <td class="end">
                <span class="row-buttons">
                  <button
                    type="button"
                    aria-disabled={off !== undefined}
                    title={off}
                    onClick={() => off === undefined && onOpen(one, "set")}
                  >
                    {text.change}
                  </button>
                  <button
                    type="button"
                    class="danger"
                    aria-disabled={off !== undefined}
                    title={off}
                    onClick={() => off === undefined && onOpen(one, "remove")}
                  >
                    {text.remove}
                  </button>
                </span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Scope({ scope }: { scope: string }) {
  if (!scope.startsWith(OF_WORKFLOW)) return <strong>{costs.budgets.tenant}</strong>;
  const name = scope.slice(OF_WORKFLOW.length);
  return (
    <a href={href(`/workflows/${encodeURIComponent(name)}`)}>
      <Foreign text={name} />
    </a>
  );
}

function Limits({ one }: { one: Budget }) {
  const { kinds } = costs.budgets;
  return (
    <>
      {KINDS.map((kind) => {
        const most = one[kind];
        if (most === null) return null;
        const say = kind === "usd" ? costs.dollars : number;
        const said = costs.run.of(say(one.used[kind]), say(most));
        return <Limit key={kind} name={kinds[kind]} used={one.used[kind]} most={most} said={said} />;
      })}
    </>
  );
}

function Reserved({ one: { reserved } }: { one: Budget }) {
  if (reserved.usd === 0 && reserved.tokens === 0) return <span class="soft">{number(0)}</span>;
  return (
    <>
      {costs.dollars(reserved.usd)}, {costs.tokens(reserved.tokens)}
    </>
  );
}

function RemoveSheet({ one, onClose }: { one: Budget; onClose: () => void }) {
  const text = costs.budgets;
  const { scope } = one;
  const act = async () => {
    await call("DELETE /api/v1/budgets/{scope}", { path: { scope } });
    onClose();
  };
  return (
    <Sheet
      title={text.titles.remove(scope)}
      verb={text.verbs.remove}
      harmful
      onClose={onClose}
      onDo={act}
      whyNot={lacks("costs:write")}
    >
      <p>{text.does.remove}</p>
      <CopyAs
        doing={{
          command: ["budgets", "delete", scope],
          method: "DELETE",
          path: `/api/v1/budgets/${encodeURIComponent(scope)}`,
          python: ["budgets.delete", [scope], {}],
        }}
      />
    </Sheet>
  );
}
