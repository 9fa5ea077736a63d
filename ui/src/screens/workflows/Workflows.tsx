// The workflows that are registered: what runs of each are open, and what failed lately.
import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect } from "preact/hooks";
import { call, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Command, Empty, Foreign, Loading, Moment } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { cut } from "../../kit/text.ts";
import { shownDuration } from "../../kit/time.ts";
import { change, go, href, place } from "../../router.ts";
import { onKeys } from "../../shell/keys.ts";
import { words as all, number } from "../../words/en.ts";
import { words } from "../../words/workflows.ts";

type Workflow = Schemas["ListedWorkflow"];

const PAGE = 50;

/** A figure; nothing where the reader may not see it. */
const shown = (count: number | null | undefined): string =>
  count === null || count === undefined ? "" : number(count);

export default function Workflows(_: { names: Readonly<Record<string, string>> }) {
  const q = place.value.query.get("q") ?? "";
  const pages = useSignal<{ items: readonly Workflow[]; next: string | null } | undefined>(undefined);
  useLayoutEffect(() => {
    document.title = `${words.title} · ${all.product}`;
    return onKeys({ "/": () => document.getElementById("find-workflow")?.focus() });
  }, []);
  const first = useLoad(q, (signal) =>
    call("GET /api/v1/workflows", { query: { q: q || undefined, limit: PAGE, figures: true }, signal }),
  );
  useEffect(() => {
    const found = first.data.value;
    pages.value = found && { items: found.items, next: found.next_cursor };
  }, [first.data.value]);
  const more = async () => {
    const held = pages.peek();
    if (!held?.next) return;
    const query = { q: q || undefined, limit: PAGE, figures: true, cursor: held.next };
    const found = await call("GET /api/v1/workflows", { query });
    pages.value = { items: [...held.items, ...found.items], next: found.next_cursor };
  };
  const held = pages.value;
  return (
    <section class="screen">
      <div class="head">
        <h1>{words.title}</h1>
        <a class="button primary" href={href("/workflows/new")}>
          {words.create}
        </a>
      </div>
      <div class="bar">
        <label class="grow">
          <span class="hidden">{words.search}</span>
          <input
            id="find-workflow"
            type="search"
            placeholder={words.searchHint}
            value={q}
            onInput={(event) => change({ q: event.currentTarget.value }, true)}
          />
        </label>
        {held && <span class="soft number">{words.shown(held.items.length, held.next !== null)}</span>}
      </div>
      {first.error.value !== undefined && !held ? (
        <Problem error={first.error.value} onRetry={first.reload} />
      ) : !held ? (
        <Loading onStop={first.stop} />
      ) : held.items.length === 0 && held.next === null ? (
        <Nothing q={q} />
      ) : (
        <>
          <Table items={held.items} />
          {held.next !== null && (
            <p>
              <button type="button" onClick={more}>
                {words.more}
              </button>
            </p>
          )}
        </>
      )}
    </section>
  );
}

function Nothing({ q }: { q: string }) {
  if (q) {
    return (
      <Empty title={words.none.title}>
        <p>{words.none.text}</p>
      </Empty>
    );
  }
  return (
    <Empty title={words.empty.title}>
      <p>{words.empty.text}</p>
      <Command text={words.empty.command} />
      <a class="button" href={href("/workflows/new")}>
        {words.create}
      </a>
    </Empty>
  );
}

function Table({ items }: { items: readonly Workflow[] }) {
  const { columns } = words;
  return (
    <div class="scroller" role="group" aria-label={words.title} tabIndex={0}>
      <table class="plain-table rows">
        <thead>
          <tr>
            <th scope="col">{columns.name}</th>
            <th scope="col" class="right wide-only">
              {columns.version}
            </th>
            <th scope="col" class="right">
              {columns.open}
            </th>
            <th scope="col" class="right">
              {columns.failed}
            </th>
            <th scope="col" class="right wide-only" title={words.tookTitle}>
              {columns.took}
            </th>
            <th scope="col" class="wide-only">
              {columns.hours}
            </th>
            <th scope="col">{columns.last}</th>
            <th scope="col" class="wide-only">
              {columns.registered}
            </th>
          </tr>
        </thead>
        <tbody>
          {items.map((one) => {
            const to = href(`/workflows/${encodeURIComponent(one.name)}`);
            const broken = one.failed_24h ?? 0;
            return (
              <tr
                key={one.name}
                onClick={(event) => {
                  if (!(event.target as Element).closest("a") && !getSelection()?.toString()) go(to);
                }}
              >
                <td>
                  <a href={to}>
                    <Foreign text={one.name} />
                  </a>
                  {one.description && (
                    <p class="soft small wide-only">
                      <Foreign text={cut(one.description, 160)} />
                    </p>
                  )}
                </td>
                <td class="right number wide-only">{number(one.version)}</td>
                <td class="right number">{shown(one.open)}</td>
                <td class={broken ? "right number bad" : "right number"}>{shown(one.failed_24h)}</td>
                <td class="right number wide-only">
                  <Took seconds={one.p95_seconds} />
                </td>
                <td class="wide-only">{one.hours && <Spark hours={one.hours} />}</td>
                <td>
                  {one.last_run_at ? <Moment at={one.last_run_at} /> : <span class="soft">{words.neverRan}</span>}
                </td>
                <td class="wide-only">
                  <Moment at={one.registered_at} />
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

/** How long runs took; undefined where the reader may not see it, null where none ended. */
function Took({ seconds }: { seconds: number | null | undefined }) {
  if (typeof seconds === "number") return <>{shownDuration(seconds)}</>;
  return seconds === null ? <span class="soft">{words.noEnd}</span> : null;
}

const HIGH = 22;

/** A bar an hour; the numbers are in its name. */
function Spark({ hours }: { hours: readonly number[] }) {
  const most = Math.max(...hours);
  const all = hours.reduce((sum, one) => sum + one, 0);
  if (!all) return <span class="soft">0</span>;
  const said = words.startedByHour(all, most);
  return (
    <span class="spark">
      <svg viewBox={`0 0 ${hours.length * 4} ${HIGH}`} role="img" aria-label={said}>
        <title>{said}</title>
        {hours.map((count, hour) => {
          const high = count ? Math.max(2, (HIGH * count) / most) : 1;
          return (
            <rect
              key={hour}
              class={count ? "" : "none"}
              x={hour * 4}
              y={HIGH - high}
              width={3}
              height={high}
              rx={0.6}
            />
          );
        })}
      </svg>
      <span class="number soft" aria-hidden="true">
        {number(all)}
      </span>
    </span>
  );
}
