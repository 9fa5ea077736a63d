import assert from "node:assert/strict";
import { test } from "node:test";
import { asCommand, asPython } from "../src/kit/commands.ts";
import { toolDoing, verbsOf } from "../src/screens/agents/tools.ts";
import { budgetDoing, firstDay, readAmounts } from "../src/screens/costs/amounts.ts";
import { fall } from "../src/screens/costs/waterfall.ts";
import { bodyOf, doingOf, type Given } from "../src/screens/run/sheet/doing.ts";
import { eventDoing } from "../src/screens/triggers/events.ts";
import { moveDoing } from "../src/screens/workflows/moving.ts";
import { dollars } from "../src/words/money.ts";

const used = (usd: number, input = 0, calls = 1) => ({ usd, input, output: 0, calls });
const GIVEN: Given = { reason: "", fromNode: "", inputs: undefined, name: "", payload: null, signalId: "" };

test("dollars have as many digits as say something", () => {
  assert.deepEqual([0, 0.00002, 0.00123456, 0.0123, 0.5, 1, 12.345, 1234.5].map(dollars), [
    "$0.00",
    "$0.00002",
    "$0.00123",
    "$0.0123",
    "$0.50",
    "$1.00",
    "$12.35",
    "$1,234.50",
  ]);
});

test("each part of a sum begins where the one before it ends, the largest first", () => {
  const bars = fall({ small: used(1), large: used(6), middle: used(3) });
  assert.deepEqual(
    bars.map((bar) => [bar.name, Math.round(bar.from * 10), Math.round(bar.part * 10)]),
    [
      ["large", 0, 6],
      ["middle", 6, 3],
      ["small", 9, 1],
    ],
  );
  // Where nothing has a price, tokens say which is large; where there are none, calls.
  assert.equal(fall({ a: used(0, 1), b: used(0, 9) })[0]?.name, "b");
  assert.equal(fall({ a: used(0, 0, 1), b: used(0, 0, 2) })[0]?.name, "b");
  assert.deepEqual(fall({}), []);
  assert.equal(fall({ a: used(0, 0, 0) })[0]?.part, 0);
});

test("amounts that are typed are dollars with a part and counts without one", () => {
  assert.deepEqual(readAmounts({ usd: " 0.5 ", tokens: "", calls: "12" }), { found: { usd: 0.5, calls: 12 } });
  for (const wrong of [{ usd: "1,5" }, { usd: "-1" }, { tokens: "1.5" }, { calls: "many" }, { usd: "1e9" }])
    assert.ok(readAmounts(wrong).problem);
});

test("days are those of UTC", () => {
  const at = Date.UTC(2026, 10, 19, 23, 30) / 1000;
  assert.equal(firstDay(1, at), "2026-11-19");
  assert.equal(firstDay(30, at), "2026-10-21");
});

test("a run whose budget is used up is given more, in three languages", () => {
  const given = { ...GIVEN, budget: { usd: 1.5, calls: 9 } };
  assert.deepEqual(bodyOf("resume", given), { budget: { usd: 1.5, calls: 9 } });
  assert.deepEqual(bodyOf("resume", GIVEN), {});
  assert.deepEqual(bodyOf("retry", { ...given, reason: "more" }), { reason: "more", budget: { usd: 1.5, calls: 9 } });
  const doing = doingOf("r", "resume", given);
  assert.equal(asCommand(doing, "http://s"), "perdure runs resume r --usd 1.5 --calls 9 --server http://s");
  assert.match(asPython(doing, "http://s", false), /runs\.resume\("r", budget=\{"usd": 1\.5, "calls": 9\}\)/);
});

test("what is set, promoted, sent and moved is the same request for a terminal and a program", () => {
  const budget = budgetDoing("workflow:ask", { usd: 2, per: "day" });
  assert.equal(asCommand(budget, "http://s"), "perdure budgets set workflow:ask --usd 2 --per day --server http://s");
  const tool = toolDoing("promote", "top", true);
  assert.equal(asCommand(tool, "http://s"), "perdure tools promote top --alone --server http://s");
  assert.match(asPython(tool, "http://s", false), /tools\.promote\("top", alone=True\)/);
  const event = eventDoing({ name: "order.paid", key: "o 7", payload: { n: 1 }, id: "" });
  assert.equal(asCommand(event, "http://s"), `perdure events send order.paid '{"n":1}' --key 'o 7' --server http://s`);
  const shares = [
    { version: 3, percent: 90 },
    { version: 4, percent: 10 },
  ];
  const move = moveDoing({ name: "orders", alias: "live", shares, reason: "", revision: 2 });
  assert.equal(asCommand(move, "http://s"), "perdure workflows alias orders live 3=90 4=10 --server http://s");
  assert.match(
    asPython(move, "http://s", false),
    /put_alias\("orders", "live", \{3: 90, 4: 10\}, expected_revision=2\)/,
  );
});

test("a tool is offered what changes something about it", () => {
  const one = { kind: "workflow", state: "live", version: 2, pinned: null } as const;
  assert.deepEqual(verbsOf(one), ["pin", "retire"]);
  assert.deepEqual(verbsOf({ ...one, pinned: 2 }), ["retire"]);
  assert.deepEqual(verbsOf({ ...one, kind: "pipeline", version: null }), ["retire"]);
  assert.deepEqual(verbsOf({ ...one, state: "candidate" }), ["promote"]);
  assert.deepEqual(verbsOf({ ...one, state: "retired" }), ["promote"]);
});
