// The calendar of schedules: what is due on which day, what ran on the days that are past, and where clocks change.
import { useEffect } from "preact/hooks";
import { call, now } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Empty, Foreign, Loading } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { zone } from "../../kit/time.ts";
import { clockIn, dayIn, momentIn } from "../../kit/zones.ts";
import { change, href, place } from "../../router.ts";
import { words as general } from "../../words/en.ts";
import { words } from "../../words/triggers.ts";
import { cluster, type Day, type Due, daysOf, isMonth, monthAfter } from "./month.ts";
import { toTrigger } from "./parts.tsx";

const DAY = 86_400;
const MOST_FIRINGS = 1000;
const MOST_PAST = 12;
const MOST_RUNS = 1000;
/** How many firings a day shows one by one in its cell, and in the agenda. */
const IN_CELL = 4;
const IN_AGENDA = 20;

interface Ran {
  good: number;
  bad: number;
}

interface Month {
  readonly names: readonly string[];
  readonly due: ReadonlyMap<Day, readonly Due[]>;
  readonly past: ReadonlyMap<Day, Ran>;
  readonly capped: boolean;
  readonly pastCapped: boolean;
}

/** What comes from now on, week by week, so that a dense schedule is cut in one week and not in all that follow. */
async function readDue(
  days: readonly Day[],
  only: string,
  where: string,
  signal: AbortSignal,
): Promise<{ items: Due[]; capped: boolean }> {
  const begins = days.filter((_, index) => index % 7 === 0).map((day) => momentIn(day, where) ?? 0);
  const found = await Promise.all(
    begins.map(async (begin, index) => {
      const since = Math.max(begin, now());
      const until = begins[index + 1] ?? (momentIn(days.at(-1) ?? "", where) ?? 0) + DAY;
      if (since >= until) return { items: [], capped: false };
      if (!only)
        return call("GET /api/v1/schedules/firings", {
          query: { from: String(since), to: String(until), limit: MOST_FIRINGS },
          signal,
        });
      const trigger = await call("GET /api/v1/triggers/{name}", { path: { name: only }, signal });
      if (trigger.state !== "active") return { items: [], capped: false };
      const next = await call("GET /api/v1/triggers/{name}/next", {
        path: { name: only },
        query: { count: MOST_FIRINGS, since: String(since) },
        signal,
      });
      const items = next.items.filter((one) => one.due <= until);
      return {
        items: items.map((one) => ({ ...one, name: only, workflow: trigger.workflow })),
        capped: items.length === MOST_FIRINGS,
      };
    }),
  );
  return { items: found.flatMap((one) => one.items), capped: found.some((one) => one.capped) };
}

async function readMonth(days: readonly Day[], only: string, where: string, signal: AbortSignal): Promise<Month> {
  const since = momentIn(days[0] ?? "", where) ?? 0;
  const until = (momentIn(days.at(-1) ?? "", where) ?? 0) + DAY;
  const at = now();
  const schedules = await call("GET /api/v1/schedules", { query: { limit: 200 }, signal });
  const names = schedules.items.map((one) => one.name);
  const coming = await readDue(days, only, where, signal);
  const due = new Map<Day, Due[]>();
  for (const one of coming.items) {
    const day = dayIn(one.due, where);
    due.set(day, [...(due.get(day) ?? []), one]);
  }
  const past = new Map<Day, Ran>();
  let pastCapped = false;
  if (since < at)
    for (const name of only ? [only] : names.slice(0, MOST_PAST)) {
      const runs = await call("GET /api/v1/runs", {
        query: { tag: [`trigger=${name}`], since: String(since), until: String(Math.min(until, at)), limit: MOST_RUNS },
        signal,
      });
      pastCapped ||= runs.next_cursor !== null;
      for (const run of runs.items) {
        const day = dayIn(run.created_at, where);
        const ran = past.get(day) ?? { good: 0, bad: 0 };
        if (run.state === "failed" || run.state === "failing" || run.state === "rolled_back") ran.bad += 1;
        else ran.good += 1;
        past.set(day, ran);
      }
    }
  return { names, due, past, capped: coming.capped, pastCapped };
}

export default function Calendar() {
  const { query } = place.value;
  const where = zone.value;
  const today = dayIn(now(), where);
  const asked = query.get("month") ?? "";
  const month = isMonth(asked) ? asked : today.slice(0, 7);
  const only = query.get("name") ?? "";
  const isAgenda = (query.get("as") ?? (matchMedia("(max-width: 639px)").matches ? "agenda" : "month")) === "agenda";
  const text = words.month;
  useEffect(() => {
    document.title = `${text.title} · ${general.product}`;
  }, []);
  const days = daysOf(month);
  const loaded = useLoad(`${month} ${only} ${where}`, (signal) => readMonth(days, only, where, signal));
  const found = loaded.data.value;
  const title = new Date(`${month}-15T00:00:00Z`).toLocaleDateString("en-GB", {
    month: "long",
    year: "numeric",
    timeZone: "UTC",
  });
  const to = (by: number) => change({ month: monthAfter(month, by) });
  return (
    <section class="screen">
      <div class="crumbs">
        <a href={href("/triggers")}>{words.list}</a>
      </div>
      <header class="head">
        <h1>{text.title}</h1>
        <p class="soft">
          {text.zone(
            where === "local"
              ? Intl.DateTimeFormat().resolvedOptions().timeZone
              : where === "utc"
                ? general.time.zoneUtc
                : where,
          )}
        </p>
      </header>
      <div class="bar">
        <button type="button" aria-label={text.previous} title={text.previous} onClick={() => to(-1)}>
          ‹
        </button>
        <h2 class="month-title" aria-live="polite">
          {title}
        </h2>
        <button type="button" aria-label={text.next} title={text.next} onClick={() => to(1)}>
          ›
        </button>
        <button type="button" onClick={() => change({ month: undefined })}>
          {text.today}
        </button>
        <span class="push" />
        <label class="pick">
          <span>{words.filters.name}</span>
          <select value={only} onChange={(event) => change({ name: event.currentTarget.value })}>
            <option value="">{words.filters.all}</option>
            {[...new Set([...(found?.names ?? []), ...(only ? [only] : [])])].map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <button type="button" onClick={() => change({ as: isAgenda ? "month" : "agenda" })}>
          {isAgenda ? text.grid : text.agenda}
        </button>
      </div>
      {!found ? (
        loaded.error.value === undefined ? (
          <Loading rows={6} />
        ) : (
          <Problem error={loaded.error.value} onRetry={loaded.reload} />
        )
      ) : (
        <>
          {isAgenda ? (
            <Agenda days={days.filter((day) => day.startsWith(month))} month={found} where={where} today={today} />
          ) : (
            <Grid days={days} shown={month} month={found} where={where} today={today} />
          )}
          {found.capped && <p class="soft">{text.capped}</p>}
          {found.pastCapped && <p class="soft">{text.pastCapped}</p>}
          {!only && found.names.length > MOST_PAST && <p class="soft">{text.pastOf(MOST_PAST)}</p>}
        </>
      )}
    </section>
  );
}

interface Shown {
  readonly days: readonly Day[];
  readonly month: Month;
  readonly where: string;
  readonly today: Day;
}

const dayWords = (day: Day, long: boolean): string =>
  new Date(`${day}T00:00:00Z`).toLocaleDateString("en-GB", {
    weekday: long ? "long" : "short",
    day: "numeric",
    month: "long",
    timeZone: "UTC",
  });

function Grid({ days, shown, month, where, today }: Shown & { shown: string }) {
  const weeks = Array.from({ length: days.length / 7 }, (_, index) => days.slice(index * 7, index * 7 + 7));
  return (
    <table class="month" aria-label={words.month.grid}>
      <thead>
        <tr>
          {words.month.days.map((one) => (
            <th key={one} scope="col">
              {one}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {weeks.map((week) => (
          <tr key={week[0]}>
            {week.map((day) => (
              <Cell
                key={day}
                day={day}
                isOther={!day.startsWith(shown)}
                month={month}
                where={where}
                isToday={day === today}
              />
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface OneDay {
  readonly day: Day;
  readonly isOther: boolean;
  readonly isToday: boolean;
  readonly month: Month;
  readonly where: string;
}

function Cell({ day, isOther, isToday, month, where }: OneDay) {
  const due = month.due.get(day) ?? [];
  const ran = month.past.get(day);
  const { single, counted } = cluster(due, IN_CELL);
  return (
    <td
      class={isOther ? "other" : undefined}
      aria-current={isToday ? "date" : undefined}
      data-group={ran ? (ran.bad > 0 ? "bad" : "good") : undefined}
    >
      <span class="day number">
        <span class="hidden">{dayWords(day, true)}</span>
        <span aria-hidden="true">{Number(day.slice(8))}</span>
      </span>
      {ran && <span class="ran">{words.month.ran(ran.good, ran.bad)}</span>}
      <ul>
        {single.map((one) => (
          <li key={`${one.name} ${one.due}`}>
            <Firing one={one} where={where} />
          </li>
        ))}
        {counted.slice(0, IN_CELL).map((one) => (
          <li key={one.name}>
            <a href={toTrigger(one.name)}>
              <Foreign text={words.month.some(one.items.length, one.name)} />
            </a>
            <Notes items={one.items} />
          </li>
        ))}
        {counted.length > IN_CELL && <li class="soft">{words.month.more(counted.length - IN_CELL)}</li>}
      </ul>
    </td>
  );
}

function Firing({ one, where }: { one: Due; where: string }) {
  return (
    <>
      <a href={toTrigger(one.name)}>
        <span class="number">{clockIn(one.due, where).slice(11, 16)}</span> <Foreign text={one.name} />
      </a>
      <Notes items={[one]} />
    </>
  );
}

/** Where clocks change: what that does to a moment. */
function Notes({ items }: { items: readonly Due[] }) {
  const notes = [...new Set(items.map((one) => one.note).filter(Boolean))];
  if (notes.length === 0) return null;
  return (
    <span class="flag note">
      <Foreign text={notes.join("; ")} />
    </span>
  );
}

function Agenda({ days, month, where, today }: Shown) {
  const busy = days.filter((day) => month.due.has(day) || month.past.has(day));
  if (busy.length === 0) return <Empty title={words.month.none} />;
  return (
    <ol class="agenda">
      {busy.map((day) => {
        const ran = month.past.get(day);
        const { single, counted } = cluster(month.due.get(day) ?? [], IN_AGENDA);
        return (
          <li key={day} aria-current={day === today ? "date" : undefined}>
            <h3>{dayWords(day, false)}</h3>
            <ul>
              {ran && (
                <li>
                  <span class="state small" data-group={ran.bad > 0 ? "bad" : "good"}>
                    {words.month.ran(ran.good, ran.bad)}
                  </span>
                </li>
              )}
              {single.map((one) => (
                <li key={`${one.name} ${one.due}`}>
                  <Firing one={one} where={where} /> <Foreign text={one.workflow} className="soft" />
                </li>
              ))}
              {counted.map((one) => (
                <li key={one.name}>
                  <a href={toTrigger(one.name)}>
                    <Foreign text={words.month.some(one.items.length, one.name)} />
                  </a>{" "}
                  <span class="soft number">
                    {clockIn(one.items[0]?.due ?? 0, where).slice(11, 16)} –{" "}
                    {clockIn(one.items.at(-1)?.due ?? 0, where).slice(11, 16)}
                  </span>
                  <Notes items={one.items} />
                </li>
              ))}
            </ul>
          </li>
        );
      })}
    </ol>
  );
}
