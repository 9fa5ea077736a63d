// What the run has used, by node and by model, how much of its budget that is, and what was decided about calls of tools.
import type { ComponentChildren } from "preact";
import { call, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Empty, Foreign, Loading } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { change } from "../../router.ts";
import { costs } from "../../words/costs.ts";
import { number } from "../../words/en.ts";
import { Limit } from "../costs/Limit.tsx";
import { type Bar, fall } from "../costs/waterfall.ts";
import { Guards } from "./Guards.tsx";
import type { RunStore } from "./store.ts";

type Usage = Schemas["Usage"];

export default function Costs({ store }: { store: RunStore }) {
  const text = costs.run;
  const path = { run_id: store.runId };
  const again = store.readings.value;
  const loaded = useLoad(store.runId, (signal) => call("GET /api/v1/runs/{run_id}/usage", { path, signal }), again);
  const found = loaded.data.value;
  if (loaded.error.value !== undefined && !found) return <Problem error={loaded.error.value} onRetry={loaded.reload} />;
  if (!found) return <Loading rows={4} />;
  const isUsed = found.total.calls > 0 || found.total.usd > 0 || found.total.input + found.total.output > 0;
  if (!isUsed && found.budget === null)
    return (
      <Empty title={text.none.title}>
        <p>{text.none.text}</p>
      </Empty>
    );
  return (
    <div class="values">
      {store.at.value !== undefined && <p class="soft">{text.now}</p>}
      <section class="card">
        <Figures total={found.total} />
        <More found={found} />
      </section>
      {found.budget && <Budget total={found.total} budget={found.budget} />}
      {isUsed && (
        <>
          <Fall title={text.byNode} label={text.columns.name.node} of={found.by_node}>
            {(node) => (
              <button
                type="button"
                class="disclose"
                aria-label={text.open(node)}
                disabled={!store.nodes.value.has(node)}
                onClick={() => change({ node })}
              >
                <Foreign text={node} />
              </button>
            )}
          </Fall>
          <Fall title={text.byModel} label={text.columns.name.model} of={found.by_model}>
            {(model) => (model ? <Foreign text={model} /> : <span class="soft">{text.noModel}</span>)}
          </Fall>
        </>
      )}
      <Guards store={store} />
    </div>
  );
}

function Figures({ total }: { total: Usage }) {
  const text = costs.figures;
  return (
    <dl class="figures">
      <div>
        <dt>{text.usd}</dt>
        <dd class="number">{costs.dollars(total.usd)}</dd>
      </div>
      {(["calls", "input", "output"] as const).map((name) => (
        <div key={name}>
          <dt>{text[name]}</dt>
          <dd class="number">{number(total[name])}</dd>
        </div>
      ))}
    </dl>
  );
}

/** What the figures do not say by themselves. */
function More({ found }: { found: Schemas["RunUsage"] }) {
  const text = costs.more;
  const { total, unsettled, children, reserved } = found;
  const lines = [
    !total.priced && text.unpriced,
    unsettled.calls > 0 && text.unsettled(unsettled.calls, unsettled.usd),
    children.usd > 0 && text.children(children.usd),
    (reserved.usd > 0 || reserved.input + reserved.output > 0) &&
      text.reserved(reserved.usd, reserved.input + reserved.output),
  ].filter((one) => one !== false);
  return (
    <>
      {lines.map((one) => (
        <p key={one} class="soft">
          {one}
        </p>
      ))}
    </>
  );
}

function Budget({ total, budget }: { total: Usage; budget: Schemas["Limits"] }) {
  const text = costs.run;
  const kinds = costs.budgets.kinds;
  const tokens = total.input + total.output;
  const parts = [
    budget.usd !== undefined && { name: kinds.usd, used: total.usd, most: budget.usd, say: costs.dollars },
    budget.tokens !== undefined && { name: kinds.tokens, used: tokens, most: budget.tokens, say: number },
    budget.calls !== undefined && { name: kinds.calls, used: total.calls, most: budget.calls, say: number },
  ].filter((one) => one !== false);
  return (
    <section class="card">
      <h2>{text.budget}</h2>
      {parts.map(({ name, used, most, say }) => (
        <Limit key={name} name={name} used={used} most={most} said={text.of(say(used), say(most))} />
      ))}
      <p class="soft">{text.whenUsedUp[budget.on_exceed]}</p>
    </section>
  );
}

interface Falling {
  readonly title: string;
  readonly label: string;
  readonly of: Readonly<Record<string, Usage>>;
  readonly children: (name: string) => ComponentChildren;
}

/** The largest first; each bar begins where the one above it ends, and all together are the whole. */
function Fall({ title, label, of, children }: Falling) {
  const { columns, both } = costs.run;
  const bars = fall(of);
  if (bars.length === 0) return null;
  return (
    <section class="card">
      <h2>{title}</h2>
      <div class="scroller">
        <table class="ops-table fall">
          <caption class="hidden">{title}</caption>
          <thead>
            <tr>
              <th scope="col">{label}</th>
              <th scope="col" class="end">
                {columns.calls}
              </th>
              <th scope="col" class="end">
                {columns.tokens}
              </th>
              <th scope="col" class="end">
                {columns.usd}
              </th>
              <th scope="col" class="fall-share">
                {columns.share}
              </th>
            </tr>
          </thead>
          <tbody>
            {bars.map((bar) => (
              <tr key={bar.name}>
                <td>{children(bar.name)}</td>
                <td class="number end">{number(bar.usage.calls)}</td>
                <td class="number end nowrap">{both(bar.usage.input, bar.usage.output)}</td>
                <td class="number end nowrap">
                  {costs.dollars(bar.usage.usd)}
                  {!bar.usage.priced && <div class="soft small">{costs.more.unpriced}</div>}
                </td>
                <td class="fall-share">
                  <Piece bar={bar} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Piece({ bar }: { bar: Bar<Usage> }) {
  const percent = (part: number) => `${(part * 100).toFixed(2)}%`;
  return (
    <svg class="fall-bar" role="img" aria-label={`${Math.round(bar.part * 100)} %`}>
      <rect class="fall-ground" x="0" width="100%" height="100%" rx="3" />
      <rect x={percent(bar.from)} width={percent(Math.max(bar.part, 0.004))} height="100%" rx="3" />
    </svg>
  );
}
