// What each node did when, as bars: made from the film, for the timeline. Times are in milliseconds.
import type { Film, Row } from "./film.ts";

export type Doing = "queued" | "running" | "waiting" | "retrying";

export interface Bar {
  readonly lane: number;
  readonly from: number;
  /** Undefined: it goes on. */
  readonly to: number | undefined;
  readonly doing: Doing;
  /** The state that the bar led to; empty while it goes on. */
  readonly ended: string;
  readonly attempt: number;
}

export interface Lane {
  readonly node: string;
  /** What the lane shows of the node: all of it, one iteration, or one item. */
  readonly part: { readonly scope: readonly number[] } | { readonly item: number } | undefined;
  /** Whether the lane can be opened: there are iterations or items. */
  readonly parts: number;
}

export interface Chart {
  readonly lanes: readonly Lane[];
  readonly bars: readonly Bar[];
  readonly start: number;
  readonly end: number;
}

const DOING: Readonly<Record<string, Doing>> = {
  queued: "queued",
  running: "running",
  waiting: "waiting",
  held: "waiting",
  parked: "waiting",
  retrying: "retrying",
};

interface Open {
  row: Row;
  lane: number;
}

/** Lanes in the order in which nodes began; those in `opened` with a lane for each iteration and item. */
export function chartOf(film: Film, opened: ReadonlySet<string>, most = 20_000): Chart {
  const parts = countParts(film);
  const order: number[] = [];
  const known = new Set<number>();
  let [start, end] = [Number.POSITIVE_INFINITY, 0];
  for (let index = 0; index < film.length; index++) {
    const row = film.row(index);
    start = Math.min(start, row.started ?? row.at);
    end = Math.max(end, row.at);
    if (row.state === "pending" || row.state === "upstream_failed" || row.state === "skipped" || known.has(row.node))
      continue;
    known.add(row.node);
    order.push(row.node);
  }
  const lanes: Lane[] = [];
  const places = new Map<string, number>();
  for (const node of order) {
    const name = film.names[node] ?? "";
    const held = parts.get(node) ?? [];
    places.set(String(node), lanes.push({ node: name, part: undefined, parts: held.length }) - 1);
    if (!opened.has(name)) continue;
    for (const part of held.slice(0, 1000)) {
      const shown = part.item < 0 ? { scope: film.scopes[part.scope] ?? [] } : { item: part.item };
      places.set(keyOf(node, part), lanes.push({ node: name, part: shown, parts: 0 }) - 1);
    }
  }
  return { lanes, bars: drawBars(film, places, most), start: Number.isFinite(start) ? start : 0, end };
}

type Part = { readonly scope: number; readonly item: number };

const keyOf = (node: number, part: Part): string => `${node} ${part.scope} ${part.item}`;

/** The iterations and items of each node, where there are several. */
function countParts(film: Film): Map<number, Part[]> {
  const found = new Map<number, Map<string, Part>>();
  for (let index = 0; index < film.length; index++) {
    const { node, scope, item } = film.row(index);
    if (!scope && item < 0) continue;
    const own = found.get(node) ?? new Map<string, Part>();
    own.set(keyOf(node, { scope, item }), { scope, item });
    found.set(node, own);
  }
  return new Map([...found].map(([node, own]) => [node, [...own.values()]]));
}

function drawBars(film: Film, places: ReadonlyMap<string, number>, most: number): Bar[] {
  const bars: Bar[] = [];
  const open = new Map<string, Open>();
  for (let index = 0; index < film.length && bars.length < most; index++) {
    const row = film.row(index);
    const key = keyOf(row.node, row);
    for (const lane of [places.get(key), row.item < 0 ? places.get(String(row.node)) : undefined]) {
      if (lane === undefined) continue;
      const own = `${lane} ${key}`;
      const before = open.get(own);
      if (before) close(bars, before, row);
      else if (
        !DOING[row.state] &&
        row.state !== "pending" &&
        row.state !== "upstream_failed" &&
        row.state !== "skipped"
      )
        add(bars, lane, row.started ?? row.at, row.at, "running", row.state, row.attempt);
      if (DOING[row.state]) open.set(own, { row, lane });
      else open.delete(own);
    }
  }
  for (const { row, lane } of open.values()) add(bars, lane, row.at, undefined, DOING[row.state]!, "", row.attempt);
  return bars;
}

/** End a bar. When a worker took a task stands in what it led to: before that it was queued. */
function close(bars: Bar[], { row: before, lane }: Open, row: Row): void {
  const doing = DOING[before.state]!;
  const begun = row.started;
  if (doing === "queued" && begun !== undefined && begun >= before.at && begun <= row.at) {
    if (begun > before.at) add(bars, lane, before.at, begun, "queued", "running", before.attempt);
    add(bars, lane, begun, row.at, "running", row.state, row.attempt);
  } else if (!(doing === "queued" && row.state === "running" && row.at === before.at)) {
    add(bars, lane, before.at, row.at, doing, row.state, before.attempt);
  }
}

function add(
  bars: Bar[],
  lane: number,
  from: number,
  to: number | undefined,
  doing: Doing,
  ended: string,
  attempt: number,
): void {
  bars.push({ lane, from, to, doing, ended, attempt });
}

// -- the axis

export interface Piece {
  readonly from: number;
  readonly to: number;
  /** How much of the axis it takes, in milliseconds: less than it lasted where nothing was done. */
  readonly width: number;
  readonly cut: boolean;
}

/** The axis of time. Where nothing runs for more than ten times the median of the pauses, the pause is shown short. */
export function axisOf(chart: Chart, now: number, collapse: boolean): Piece[] {
  const end = Math.max(chart.start + 1, chart.bars.some((bar) => bar.to === undefined) ? now : chart.end);
  if (!collapse) return [{ from: chart.start, to: end, width: end - chart.start, cut: false }];
  const busy = mergeBusy(chart, end);
  const steps = [...new Set([chart.start, ...chart.bars.flatMap((bar) => [bar.from, bar.to ?? end]), end])].sort(
    (one, two) => one - two,
  );
  const pauses = steps.slice(1).map((step, index) => step - steps[index]!);
  const median = [...pauses].sort((one, two) => one - two)[Math.floor(pauses.length / 2)] ?? 0;
  const longest = Math.max(10 * median, 50);
  const pieces: Piece[] = [];
  let from = chart.start;
  for (const gap of gapsBetween(busy, chart.start, end)) {
    if (gap.to - gap.from <= longest) continue;
    if (gap.from > from) pieces.push({ from, to: gap.from, width: gap.from - from, cut: false });
    pieces.push({ ...gap, width: longest, cut: true });
    from = gap.to;
  }
  if (from < end) pieces.push({ from, to: end, width: end - from, cut: false });
  return pieces;
}

function mergeBusy(chart: Chart, end: number): { from: number; to: number }[] {
  const spans = chart.bars
    .filter((bar) => bar.doing === "queued" || bar.doing === "running")
    .map((bar) => ({ from: bar.from, to: bar.to ?? end }))
    .sort((one, two) => one.from - two.from);
  const merged: { from: number; to: number }[] = [];
  for (const span of spans) {
    const last = merged.at(-1);
    if (last && span.from <= last.to) last.to = Math.max(last.to, span.to);
    else merged.push({ ...span });
  }
  return merged;
}

function gapsBetween(busy: readonly { from: number; to: number }[], start: number, end: number) {
  const gaps: { from: number; to: number }[] = [];
  let from = start;
  for (const span of busy) {
    if (span.from > from) gaps.push({ from, to: span.from });
    from = Math.max(from, span.to);
  }
  if (end > from) gaps.push({ from, to: end });
  return gaps;
}

/** Where a moment is on the axis, from 0 to 1. */
export function placeOn(axis: readonly Piece[], at: number): number {
  let [before, all, found] = [0, 0, -1];
  for (const piece of axis) {
    if (found < 0 && at <= piece.to) {
      const part = piece.to > piece.from ? (Math.max(at, piece.from) - piece.from) / (piece.to - piece.from) : 0;
      found = before + part * piece.width;
    }
    before += piece.width;
    all = before;
  }
  return all ? (found < 0 ? all : found) / all : 0;
}

/** The moment at a place of the axis. */
export function momentAt(axis: readonly Piece[], spot: number): number {
  const all = axis.reduce((sum, piece) => sum + piece.width, 0);
  let left = Math.max(0, Math.min(1, spot)) * all;
  for (const piece of axis) {
    if (left <= piece.width) return piece.from + (left / Math.max(1e-9, piece.width)) * (piece.to - piece.from);
    left -= piece.width;
  }
  return axis.at(-1)?.to ?? 0;
}

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500].concat(
  [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400].map((s) => s * 1000),
);

export interface Tick {
  readonly at: number;
  /** Where it is in what is seen, from 0 to 1. */
  readonly spot: number;
}

/** Round moments to write on the part of the axis that is seen, at most so many, and how far apart they are. */
export function ticksOf(axis: readonly Piece[], [from, to]: readonly [number, number], most: number) {
  const all = axis.reduce((sum, piece) => sum + piece.width, 0) || 1;
  const seen: { from: number; to: number; spot: number }[] = [];
  let before = 0;
  for (const piece of axis) {
    const [left, right] = [Math.max(before, from * all), Math.min(before + piece.width, to * all)];
    // Outside of what is cut, a millisecond of the axis is a millisecond.
    if (!piece.cut && left <= right)
      seen.push({ from: piece.from + left - before, to: piece.from + right - before, spot: left / all });
    before += piece.width;
  }
  const lasts = seen.reduce((sum, one) => sum + one.to - one.from, 0);
  const longest = STEPS.at(-1)!;
  const step = STEPS.find((one) => lasts / one <= most) ?? longest * Math.ceil(lasts / most / longest);
  const found: Tick[] = [];
  for (const piece of seen)
    for (let at = Math.ceil(piece.from / step) * step; at <= piece.to; at += step) {
      const spot = (piece.spot + (at - piece.from) / all - from) / (to - from);
      if (spot - (found.at(-1)?.spot ?? -1) >= 0.8 / most) found.push({ at, spot });
    }
  return { ticks: found, step };
}

/** The nodes that the run's duration is made of: from what ended last, back along the edges to what each waited for. */
export function criticalPath(film: Film): Set<string> {
  const ends = new Map<string, number>();
  for (let index = 0; index < film.length; index++) {
    const row = film.row(index);
    if (row.state === "completed" || row.state === "failed") ends.set(film.names[row.node] ?? "", row.at);
  }
  const back = new Map<string, string[]>();
  for (const [from, to] of film.taken(film.lastSeq)) back.set(to, [...(back.get(to) ?? []), from]);
  const latest = (names: readonly string[]) =>
    names.reduce<string | undefined>(
      (best, name) => (ends.has(name) && (best === undefined || ends.get(name)! > ends.get(best)!) ? name : best),
      undefined,
    );
  const found = new Set<string>();
  for (
    let here = latest([...ends.keys()]);
    here !== undefined && !found.has(here);
    here = latest(back.get(here) ?? [])
  ) {
    found.add(here);
  }
  return found;
}
