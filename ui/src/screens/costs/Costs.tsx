// Costs: what all runs have used, by workflow, model or day, and the budgets of the tenant and of its workflows.
import { useEffect } from "preact/hooks";
import { call, now, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Command, Empty, Foreign, Loading } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { change, href, place } from "../../router.ts";
import { readMe } from "../../shell/me.ts";
import { costs } from "../../words/costs.ts";
import { number, words } from "../../words/en.ts";
import { firstDay } from "./amounts.ts";
import { Budgets } from "./Budgets.tsx";
import { fall } from "./waterfall.ts";

type By = "workflow" | "model" | "day";
type Spent = Schemas["SpentBy"];

const PARTS = ["usage", "budgets"] as const;
const BYS: readonly By[] = ["workflow", "model", "day"];

export default function Costs() {
  const part = place.value.query.get("tab") === "budgets" ? "budgets" : "usage";
  useEffect(() => {
    document.title = `${costs.title} · ${words.product}`;
    void readMe();
  }, []);
  return (
    <section class="screen">
      <header class="head">
        <h1>{costs.title}</h1>
      </header>
      <nav class="sub" aria-label={costs.title}>
        {PARTS.map((one) => (
          <a
            key={one}
            href={href("/costs", { tab: one === "usage" ? undefined : one })}
            aria-current={one === part ? "page" : undefined}
          >
            {costs.parts[one]}
          </a>
        ))}
      </nav>
      {part === "usage" ? <Usage /> : <Budgets />}
    </section>
  );
}

function Usage() {
  const text = costs.usage;
  const { query } = place.value;
  const by = BYS.find((one) => one === query.get("by")) ?? "workflow";
  const days = Object.keys(text.spans).find((one) => one === query.get("days")) ?? "30";
  const workflow = query.get("workflow") ?? "";
  const asked = { by, since: firstDay(Number(days), now()), workflow: workflow || undefined };
  const found = useLoad(JSON.stringify(asked), (signal) => call("GET /api/v1/usage", { query: asked, signal }));
  const usage = found.data.value;
  return (
    <>
      <div class="bar">
        <div class="segments" role="radiogroup" aria-label={text.by}>
          {BYS.map((one) => (
            <label key={one}>
              <input
                type="radio"
                name="by"
                checked={one === by}
                onChange={() => change({ by: one === "workflow" ? undefined : one })}
              />
              <span>{text.columns[one]}</span>
            </label>
          ))}
        </div>
        <select
          aria-label={text.span}
          value={days}
          onChange={(event) => change({ days: event.currentTarget.value === "30" ? "" : event.currentTarget.value })}
        >
          {Object.entries(text.spans).map(([one, said]) => (
            <option key={one} value={one}>
              {said}
            </option>
          ))}
        </select>
        <input
          type="search"
          aria-label={text.workflow}
          placeholder={text.workflow}
          value={workflow}
          onChange={(event) => change({ workflow: event.currentTarget.value.trim() })}
        />
      </div>
      {!usage ? (
        found.error.value === undefined ? (
          <Loading rows={5} onStop={found.stop} />
        ) : (
          <Problem error={found.error.value} onRetry={found.reload} />
        )
      ) : usage.items.length === 0 ? (
        <Empty title={text.none.title}>
          <p>{text.none.text}</p>
          <Command text={text.command} />
        </Empty>
      ) : (
        <Table usage={usage} />
      )}
    </>
  );
}

function Table({ usage }: { usage: Schemas["TenantUsage"] }) {
  const text = costs.usage;
  const { columns } = costs.run;
  const parts = new Map(
    fall(Object.fromEntries(usage.items.map((one) => [one.name, one]))).map((b) => [b.name, b.part]),
  );
  return (
    <>
      <dl class="figures">
        <div>
          <dt>{costs.figures.usd}</dt>
          <dd class="number">{costs.dollars(usage.total.usd)}</dd>
        </div>
        {(["calls", "input", "output"] as const).map((name) => (
          <div key={name}>
            <dt>{costs.figures[name]}</dt>
            <dd class="number">{number(usage.total[name])}</dd>
          </div>
        ))}
      </dl>
      <p class="soft">
        {text.days(usage.since, usage.until)}
        {!usage.total.priced && `; ${costs.more.unpriced}`}
      </p>
      {usage.total.unsettled.calls > 0 && (
        <p class="soft">{costs.more.unsettled(usage.total.unsettled.calls, usage.total.unsettled.usd)}</p>
      )}
      <div class="scroller" role="group" aria-label={costs.parts.usage} tabIndex={0}>
        <table class="ops-table">
          <caption class="hidden">{costs.parts.usage}</caption>
          <thead>
            <tr>
              <th scope="col">{text.columns[usage.by]}</th>
              <th scope="col" class="end">
                {columns.calls}
              </th>
              <th scope="col" class="end">
                {costs.figures.input}
              </th>
              <th scope="col" class="end">
                {text.cached}
              </th>
              <th scope="col" class="end">
                {costs.figures.output}
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
            {inOrder(usage).map((one) => (
              <Row key={one.name} one={one} by={usage.by} part={parts.get(one.name) ?? 0} />
            ))}
          </tbody>
        </table>
      </div>
      {usage.more && <p class="soft">{text.cut}</p>}
    </>
  );
}

/** Days as they came, the newest first; else what cost most first. */
const inOrder = ({ by, items }: Schemas["TenantUsage"]): readonly Spent[] =>
  by === "day"
    ? items.toSorted((one, other) => (one.name < other.name ? 1 : -1))
    : items.toSorted((one, other) => other.usd - one.usd || other.calls - one.calls);

function Row({ one, by, part }: { one: Spent; by: By; part: number }) {
  return (
    <tr>
      <td>
        <Named name={one.name} by={by} />
      </td>
      <td class="number end">{number(one.calls)}</td>
      <td class="number end">{number(one.input)}</td>
      <td class="number end soft">{number(one.cached)}</td>
      <td class="number end">{number(one.output)}</td>
      <td class="number end nowrap">
        {costs.dollars(one.usd)}
        {!one.priced && <div class="soft small">{costs.more.unpriced}</div>}
      </td>
      <td class="fall-share">
        <svg class="fall-bar" role="img" aria-label={`${Math.round(part * 100)} %`}>
          <rect class="fall-ground" x="0" width="100%" height="100%" rx="3" />
          <rect x="0" width={`${(Math.max(part, 0.004) * 100).toFixed(2)}%`} height="100%" rx="3" />
        </svg>
      </td>
    </tr>
  );
}

function Named({ name, by }: { name: string; by: By }) {
  if (by === "workflow" && name)
    return (
      <a href={href(`/workflows/${encodeURIComponent(name)}`)}>
        <Foreign text={name} />
      </a>
    );
  if (!name) return <span class="soft">{costs.run.noModel}</span>;
  return <Foreign text={name} className={by === "day" ? "number" : undefined} />;
}
