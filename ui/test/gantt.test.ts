import assert from "node:assert/strict";
import { test } from "node:test";
import { Film, type FilmPage } from "../src/film/film.ts";
import { axisOf, chartOf, criticalPath, momentAt, placeOn, ticksOf } from "../src/film/gantt.ts";

const STATES = ["pending", "queued", "running", "waiting", "retrying", "completed", "failed"];

interface Given {
  seq: number;
  at: number;
  node: number;
  state: string;
  attempt?: number;
  started?: number;
  item?: number;
}

function filmOf(names: string[], rows: Given[], edges: [number, number, number][] = []): Film {
  const steps = (numbers: number[]) => numbers.map((value, index) => value - (numbers[index - 1] ?? 0));
  const film = new Film();
  film.add({
    run_id: "r",
    nodes: names,
    states: STATES,
    scopes: [[]],
    seq: steps(rows.map((row) => row.seq)),
    at: steps(rows.map((row) => row.at)),
    node: rows.map((row) => row.node),
    scope: rows.map(() => 0),
    item: rows.map((row) => row.item ?? -1),
    visit: rows.map(() => 1),
    attempt: rows.map((row) => row.attempt ?? 1),
    state: rows.map((row) => STATES.indexOf(row.state)),
    started: rows.map((row) => (row.started === undefined ? null : row.at - row.started)),
    shown: rows.map((row) => (row.item === undefined ? 1 : 0)),
    edges: {
      fates: ["open", "taken", "skipped"],
      seq: steps(edges.map(([seq]) => seq)),
      from: edges.map(([, from]) => from),
      to: edges.map(([, , to]) => to),
      fate: edges.map(() => 1),
    },
    last_seq: rows.at(-1)!.seq,
    next_cursor: null,
  } satisfies FilmPage);
  return film;
}

test("a task is queued until a worker took it, and then it runs", () => {
  const film = filmOf(
    ["a"],
    [
      { seq: 1, at: 1000, node: 0, state: "queued" },
      { seq: 2, at: 1900, node: 0, state: "completed", started: 1300 },
    ],
  );
  const chart = chartOf(film, new Set());
  assert.deepEqual(
    chart.bars.map((bar) => [bar.doing, bar.from, bar.to, bar.ended]),
    [
      ["queued", 1000, 1300, "running"],
      ["running", 1300, 1900, "completed"],
    ],
  );
});

test("each attempt has its bar, and what goes on has no end", () => {
  const film = filmOf(
    ["a"],
    [
      { seq: 1, at: 0, node: 0, state: "queued" },
      { seq: 2, at: 10, node: 0, state: "retrying", started: 2 },
      { seq: 3, at: 60, node: 0, state: "queued", attempt: 2 },
    ],
  );
  const chart = chartOf(film, new Set());
  assert.deepEqual(
    chart.bars.map((bar) => [bar.doing, bar.from, bar.to]),
    [
      ["queued", 0, 2],
      ["running", 2, 10],
      ["retrying", 10, 60],
      ["queued", 60, undefined],
    ],
  );
});

test("items have lanes of their own where their node is opened", () => {
  const film = filmOf(
    ["all"],
    [
      { seq: 1, at: 0, node: 0, state: "running" },
      { seq: 2, at: 5, node: 0, state: "completed", item: 0 },
      { seq: 3, at: 9, node: 0, state: "completed", item: 1 },
      { seq: 4, at: 9, node: 0, state: "completed" },
    ],
  );
  assert.equal(chartOf(film, new Set()).lanes.length, 1);
  const opened = chartOf(film, new Set(["all"]));
  assert.deepEqual(
    opened.lanes.map((lane) => lane.part),
    [undefined, { item: 0 }, { item: 1 }],
  );
});

test("time in which nothing is done is shown short, and every moment has one place", () => {
  const film = filmOf(
    ["a", "b"],
    [
      { seq: 1, at: 0, node: 0, state: "queued" },
      { seq: 2, at: 100, node: 0, state: "completed" },
      { seq: 3, at: 100, node: 1, state: "waiting" },
      { seq: 4, at: 9_000_000, node: 1, state: "queued" },
      { seq: 5, at: 9_000_100, node: 1, state: "completed" },
    ],
  );
  const chart = chartOf(film, new Set());
  const axis = axisOf(chart, 0, true);
  assert.deepEqual(
    axis.map((piece) => [piece.from, piece.to, piece.cut]),
    [
      [0, 100, false],
      [100, 9_000_000, true],
      [9_000_000, 9_000_100, false],
    ],
  );
  assert.ok(axis.reduce((sum, piece) => sum + piece.width, 0) < 2000);
  assert.equal(axisOf(chart, 0, false).length, 1);
  for (const at of [0, 50, 100, 9_000_000, 9_000_050, 9_000_100])
    assert.ok(Math.abs(momentAt(axis, placeOn(axis, at)) - at) < 1, String(at));
  assert.ok(placeOn(axis, 50) < placeOn(axis, 100));
});

test("the critical path goes back along the edges that were taken to what was waited for longest", () => {
  const film = filmOf(
    ["a", "slow", "quick", "end"],
    [
      { seq: 1, at: 10, node: 0, state: "completed" },
      { seq: 2, at: 20, node: 2, state: "completed" },
      { seq: 3, at: 90, node: 1, state: "completed" },
      { seq: 4, at: 99, node: 3, state: "completed" },
    ],
    [
      [1, 0, 1],
      [1, 0, 2],
      [2, 2, 3],
      [3, 1, 3],
    ],
  );
  assert.deepEqual([...criticalPath(film)].sort(), ["a", "end", "slow"]);
});

test("the axis is labelled with round moments, few enough to be read, also beside a pause that is cut", () => {
  const whole = [{ from: 1_000_350, to: 1_020_000, width: 19_650, cut: false }];
  const { ticks, step } = ticksOf(whole, [0, 1], 6);
  assert.equal(step, 5000);
  assert.deepEqual(
    ticks.map((tick) => tick.at),
    [1_005_000, 1_010_000, 1_015_000, 1_020_000],
  );
  for (const tick of ticks) assert.ok(Math.abs(tick.spot - placeOn(whole, tick.at)) < 1e-9);
  const near = ticksOf(whole, [0.5, 0.6], 6);
  assert.ok(near.ticks.length > 1 && near.ticks.length <= 7 && near.ticks.every((tick) => tick.at % near.step === 0));
  const cut = [
    { from: 0, to: 1000, width: 1000, cut: false },
    { from: 1000, to: 901_000, width: 500, cut: true },
    { from: 901_000, to: 902_000, width: 1000, cut: false },
  ];
  const found = ticksOf(cut, [0, 1], 10);
  assert.ok(found.ticks.length > 4);
  for (const { at, spot } of found.ticks) {
    assert.ok(at <= 1000 || at >= 901_000);
    assert.ok(Math.abs(spot - placeOn(cut, at)) < 1e-9);
  }
});
