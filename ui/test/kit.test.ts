import assert from "node:assert/strict";
import { test } from "node:test";
import { Exact, parse, print } from "../src/api/exact.ts";
import { cut, isPlain, piecesOf, safeHref } from "../src/kit/text.ts";
import {
  clockWithMilliseconds,
  localTimes,
  readSince,
  relativeTime,
  shownDuration,
  shownTime,
} from "../src/kit/time.ts";
import { rowsInView } from "../src/kit/window.ts";
import { mergeFirst } from "../src/screens/runs/list.ts";

test("durations have the units people use", () => {
  const shown = [0, 0.0004, 0.85, 1.23, 59.94, 59.96, 184, 3599.6, 7500, 273_600, Number.NaN, -1].map(shownDuration);
  assert.deepEqual(shown, [
    "< 1 ms",
    "< 1 ms",
    "850 ms",
    "1.2 s",
    "59.9 s",
    "1 min 00 s",
    "3 min 04 s",
    "1 h 00 min",
    "2 h 05 min",
    "3 d 4 h",
    "0 s",
    "0 s",
  ]);
});

test("times are those of the chosen zone, also over the change of summer time", () => {
  const before = Date.UTC(2026, 10, 1, 5, 30) / 1000;
  const after = Date.UTC(2026, 10, 1, 6, 30) / 1000;
  assert.equal(shownTime(before, "America/New_York", after), "01:30:00");
  assert.equal(shownTime(after, "America/New_York", after), "01:30:00");
  assert.equal(shownTime(before, "Asia/Kolkata", after), "11:00:00");
  assert.equal(shownTime(before, "utc", after + 86_400), "1 Nov 2026, 05:30:00");
  assert.equal(clockWithMilliseconds(1.25, "utc"), "00:00:01.250");
});

test("how long ago, and how far ahead", () => {
  assert.deepEqual(
    [100, 95, 10, -3600, 90_000].map((at) => relativeTime(at, 100)),
    ["now", "5 s ago", "1 min ago", "1 h ago", "in 1 d"],
  );
});

test("since in an address is a time before now", () => {
  assert.equal(readSince("24h", 100_000), "13600");
  assert.equal(readSince("2026-11-15T09:30:00Z", 5), "2026-11-15T09:30:00Z");
});

test("what cannot be seen in a text is named", () => {
  assert.ok(!isPlain("\u202eab"));
  assert.deepEqual(piecesOf("\u202eab")[0], { text: "U+202E", odd: true });
  assert.ok(isPlain("a\tb\nc é 漢字 🙂"));
  assert.deepEqual(piecesOf("a\u202eb\u0000\u200b"), [
    { text: "a", odd: false },
    { text: "U+202E", odd: true },
    { text: "b", odd: false },
    { text: "U+0000", odd: true },
    { text: "U+200B", odd: true },
  ]);
  assert.equal(cut("ab🙂c", 3), "ab…");
  assert.equal(cut("abc", 3), "abc");
});

test("only addresses of the web are links", () => {
  assert.equal(safeHref("https://example.org/a"), "https://example.org/a");
  for (const bad of [
    "javascript:alert(1)",
    " https://x",
    "data:text/html,x",
    "//x",
    "ftp://x",
    "https://",
    "JaVaScRiPt:x",
    "blob:https://x",
  ])
    assert.equal(safeHref(bad), undefined, bad);
});

test("numbers keep their digits, and foreign keys stay keys", () => {
  const found = parse('{"a":9223372036854775807,"b":1.5,"__proto__":{"x":1}}') as Record<string, unknown>;
  assert.ok(found.a instanceof Exact);
  assert.equal((found.a as Exact).text, "9223372036854775807");
  assert.equal(({} as Record<string, unknown>).x, undefined);
  assert.equal(print(found), '{\n  "a": 9223372036854775807,\n  "b": 1.5,\n  "__proto__": {\n    "x": 1\n  }\n}');
});

test("only rows in view are drawn, whatever the length of the list", () => {
  for (const top of [0, -44, -100_000, -880_000, 300]) {
    const { from, to } = rowsInView(top, 900, 20_000, 44);
    assert.ok(to - from <= 64, `${from} to ${to}`);
    assert.ok(from * 44 <= Math.max(0, -top) && to * 44 >= Math.min(880_000, 900 - top), `${top}: ${from} to ${to}`);
  }
  assert.deepEqual(rowsInView(0, 900, 3, 44), { from: 0, to: 3 });
});

test("rows change in place, and new ones wait", () => {
  const run = (run_id: string, state = "running") => ({ run_id, state }) as never;
  const merged = mergeFirst([run("b"), run("a")], [run("c"), run("b", "completed")]);
  assert.deepEqual(merged, { rows: [run("b", "completed"), run("a")], fresh: [run("c")] });
});

test("a sentence of the server has its moments in the zone of the reader", () => {
  const said = "narrate is running since 2026-11-19 01:40:22 UTC, attempt 1; again at 2026-11-20 02:00:00 UTC.";
  const now = Date.UTC(2026, 10, 19, 12) / 1000;
  assert.equal(
    localTimes(said, "Asia/Kolkata", now),
    "narrate is running since 07:10:22, attempt 1; again at 20 Nov 2026, 07:30:00.",
  );
  assert.equal(localTimes("no moment: 2026-11-19", "utc", now), "no moment: 2026-11-19");
});
