// The list of runs: filters in the address, as many rows as one scrolls, live without moving what is read.
import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { pulse } from "../../api/load.ts";
import { Command, Duration, Empty, Foreign, Loading, Moment, StateMark } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { cut } from "../../kit/text.ts";
import { useWindow } from "../../kit/window.ts";
import { change, go, href, place } from "../../router.ts";
import { onKeys } from "../../shell/keys.ts";
import { nextTry } from "../../shell/Shell.tsx";
import { number, words } from "../../words/en.ts";
import { runs as more } from "../../words/runs.ts";
import { Bars } from "./Bars.tsx";
import { Bulk, type Chosen, NOBODY } from "./Bulk.tsx";
import { Filters } from "./Filters.tsx";
import { isEmpty, readFilter } from "./filter.ts";
import { type Run, RunList } from "./list.ts";
import { Views } from "./Views.tsx";

const POLL_SECONDS = 2;
const ROW = 44;
const TALL_ROW = 84;

/** The list that was shown last: whoever comes back from a run finds it as it was. */
let last: { key: string; list: RunList } | undefined;

function listFor(query: URLSearchParams): { list: RunList; isNew: boolean } {
  const filter = readFilter(query);
  const key = JSON.stringify(filter);
  if (last?.key === key) return { list: last.list, isNew: false };
  last = { key, list: new RunList(filter) };
  return { list: last.list, isNew: true };
}

export default function Runs() {
  const { list, isNew } = listFor(place.value.query);
  const turn = useSignal(0);
  useEffect(() => {
    document.title = `${words.runs.title} · ${words.product}`;
    const aborter = new AbortController();
    if (isNew || turn.value > 0 || list.error.peek() !== undefined) void list.begin(aborter.signal);
    const polling = pulse(
      POLL_SECONDS,
      () => list.look(scrollY < ROW),
      (seconds) => {
        nextTry.value = seconds;
      },
    );
    if (!isNew) void list.look(scrollY < ROW).catch(() => {}); // the pulse says when nobody answers
    return () => {
      aborter.abort();
      polling.stop();
      nextTry.value = undefined;
    };
  }, [list, turn.value]);
  return (
    <section class="screen runs">
      <header class="head">
        <h1>{words.runs.title}</h1>
        <p class="soft number" role="status">
          {list.rows.value.length > 0 && words.runs.shown(list.rows.value.length, list.more.value)}
        </p>
      </header>
      <Views filter={list.filter} />
      <Filters filter={list.filter} />
      {!list.filter.state.includes("waiting") && <Bars filter={list.filter} />}
      <Body list={list} onRetry={() => (turn.value += 1)} />
    </section>
  );
}

function Body({ list, onRetry }: { list: RunList; onRetry: () => void }) {
  const chosen = useSignal<Chosen>(NOBODY);
  useEffect(() => {
    chosen.value = NOBODY;
  }, [list]);
  if (list.rows.value.length === 0) {
    if (list.error.value !== undefined) return <Problem error={list.error.value} onRetry={onRetry} />;
    if (list.busy.value) return <Loading rows={10} />;
    if (!isEmpty(list.filter))
      return (
        <Empty title={words.runs.none.title}>
          <p>{words.runs.none.text}</p>
          <p>
            <a class="button" href={href("/runs")}>
              {words.runs.filter.clear}
            </a>
          </p>
        </Empty>
      );
    return (
      <Empty title={words.runs.empty.title}>
        <p>{words.runs.empty.text}</p>
        <Command text={words.runs.empty.command} />
      </Empty>
    );
  }
  return (
    <>
      {list.fresh.value.length > 0 && (
        <button
          type="button"
          class="fresh"
          onClick={() => {
            list.takeFresh();
            scrollTo(0, 0);
          }}
        >
          {words.runs.fresh(list.fresh.value.length)}
        </button>
      )}
      <Bulk list={list} chosen={chosen} />
      <Table list={list} picked={chosen} />
    </>
  );
}

function Table({ list, picked }: { list: RunList; picked: Signal<Chosen> }) {
  const body = useRef<HTMLTableSectionElement>(null);
  const rows = list.rows.value;
  const seen = useWindow(body, rows.length, ROW, TALL_ROW);
  const chosen = useSignal(-1);
  const { from, to, height } = seen.value;
  useEffect(() => {
    if (to > rows.length - 20) void list.readMore().catch(() => {}); // scrolling on asks again
  }, [to, rows.length]);
  useLayoutEffect(() => {
    const move = (step: number) => {
      chosen.value = Math.max(0, Math.min(list.rows.peek().length - 1, chosen.value + step));
      body.current?.querySelector<HTMLElement>(`[data-index="${chosen.value}"] a`)?.focus();
    };
    const pick = () => {
      const at = document.activeElement?.closest<HTMLElement>("tr.row")?.dataset.index;
      const run = list.rows.peek()[Number(at ?? chosen.value)];
      if (run) toggle(run.run_id);
    };
    return onKeys({ j: () => move(1), k: () => move(-1), x: pick });
  }, [list]);
  const { columns } = words.runs;
  const { ids, all } = picked.value;
  const toggle = (id: string) => {
    const next = new Set(picked.peek().ids);
    if (!next.delete(id)) next.add(id);
    picked.value = { ids: next, all: undefined };
  };
  const isAll = all !== undefined || (rows.length > 0 && rows.every((one) => ids.has(one.run_id)));
  return (
    <table class="runs-table" aria-rowcount={list.more.value ? -1 : rows.length + 1}>
      <thead>
        <tr>
          <th scope="col" class="c-pick">
            <input
              type="checkbox"
              aria-label={more.pickAll}
              checked={isAll}
              onChange={() => {
                picked.value = isAll ? NOBODY : { ids: new Set(rows.map((one) => one.run_id)), all: undefined };
              }}
            />
          </th>
          <th scope="col" class="c-state">
            {columns.state}
          </th>
          <th scope="col" class="c-workflow">
            {columns.workflow}
          </th>
          <th scope="col" class="c-id">
            {columns.id}
          </th>
          <th scope="col" class="c-started">
            {columns.started}
          </th>
          <th scope="col" class="c-duration">
            {columns.duration}
          </th>
          <th scope="col" class="c-by">
            {columns.by}
          </th>
          <th scope="col" class="c-more">
            {columns.error}
          </th>
        </tr>
      </thead>
      <tbody ref={body}>
        {from > 0 && <Spacer height={from * height} />}
        {rows.slice(from, to).map((run, index) => (
          <Row
            key={run.run_id}
            run={run}
            index={from + index}
            picked={all !== undefined || ids.has(run.run_id)}
            onPick={() => toggle(run.run_id)}
          />
        ))}
        {to < rows.length && <Spacer height={(rows.length - to) * height} />}
      </tbody>
    </table>
  );
}

function Spacer({ height }: { height: number }) {
  return (
    <tr class="spacer" style={{ height: `${height}px` }}>
      <td colSpan={8} />
    </tr>
  );
}

interface RowGiven {
  run: Run;
  index: number;
  picked: boolean;
  onPick: () => void;
}

function Row({ run, index, picked, onPick }: RowGiven) {
  const to = href(`/runs/${encodeURIComponent(run.run_id)}`);
  const open = (event: MouseEvent) => {
    const inside = (event.target as Element).closest("a, button, .c-pick");
    if (!inside && !getSelection()?.toString()) go(to);
  };
  return (
    <tr class="row" data-index={index} aria-rowindex={index + 2} data-picked={picked} onClick={open}>
      <td class="c-pick">
        <input type="checkbox" aria-label={more.pick(run.run_id)} checked={picked} onChange={onPick} />
      </td>
      <td class="c-state">
        <StateMark state={run.quarantined ? "quarantined" : run.state} waiting={run.waiting} />
      </td>
      <td class="c-workflow">
        <Foreign text={run.workflow} />
        {run.version > 0 && <span class="soft">@{number(run.version)}</span>}
      </td>
      <td class="c-id">
        <a href={to} aria-label={words.runs.open(run.run_id)}>
          <Foreign text={run.run_id} className="id" />
        </a>
      </td>
      <td class="c-started">
        <Moment at={run.started_at ?? run.created_at} />
      </td>
      <td class="c-duration">
        <Duration from={run.started_at} to={run.ended_at} />
      </td>
      <td class="c-by">{run.submitted_by && <Foreign text={run.submitted_by} />}</td>
      <td class="c-more">
        {run.error && (
          <span class="error-line">
            <code>{run.error.code}</code> <Foreign text={cut(run.error.message?.split("\n")[0] ?? "", 200)} />
          </span>
        )}
        {Object.entries(run.tags).map(([name, value]) => (
          <button type="button" key={name} class="tag" onClick={() => change({ tag: [`${name}=${value}`] })}>
            <Foreign text={cut(`${name}=${value}`, 60)} />
          </button>
        ))}
      </td>
    </tr>
  );
}
