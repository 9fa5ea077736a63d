import assert from "node:assert/strict";
import { test } from "node:test";
import { clockIn, dayIn, momentIn } from "../src/kit/zones.ts";
import { linesOf, type TriggerEvent } from "../src/screens/triggers/history.ts";
import { cluster, daysOf, monthAfter } from "../src/screens/triggers/month.ts";
import { asShell } from "../src/screens/triggers/sending.ts";
import { stateOf, type Trigger, whyNot } from "../src/screens/triggers/spec.ts";

const at = (text: string) => Date.parse(text) / 1000;
let seq = 0;
const event = (type: string, data: unknown): TriggerEvent => ({ seq: ++seq, at: seq, type, data }) as TriggerEvent;

test("a time of a zone is the moment that is meant, also where clocks change", () => {
  const berlin = "Europe/Berlin";
  assert.equal(momentIn("2026-01-15T12:00", berlin), at("2026-01-15T11:00:00Z"));
  assert.equal(momentIn("2026-07-15", berlin), at("2026-07-14T22:00:00Z"));
  assert.equal(momentIn("2026-10-25T02:30", berlin), at("2026-10-25T00:30:00Z"), "of two the first");
  assert.equal(momentIn("2026-03-29T02:30", berlin), at("2026-03-29T01:30:00Z"), "one that does not exist, as before");
  assert.equal(momentIn("2026-03-29T03:30", berlin), at("2026-03-29T01:30:00Z"));
  assert.equal(momentIn("2026-11-01T00:30", "America/New_York"), at("2026-11-01T04:30:00Z"));
  assert.equal(momentIn("2026-05-05T00:15", "Asia/Kolkata"), at("2026-05-04T18:45:00Z"));
  assert.equal(momentIn("nothing", berlin), undefined);
  assert.equal(clockIn(at("2026-03-29T01:30:00Z"), berlin), "2026-03-29T03:30:00");
  assert.equal(dayIn(at("2026-05-04T18:45:00Z"), "Asia/Kolkata"), "2026-05-05");
});

test("a month has whole weeks from Monday on", () => {
  assert.deepEqual(
    [daysOf("2026-11")[0], daysOf("2026-11").at(-1), daysOf("2026-11").length],
    ["2026-10-26", "2026-12-06", 42],
  );
  assert.equal(daysOf("2027-02").length, 28);
  assert.equal(monthAfter("2026-12", 1), "2027-01");
  assert.equal(monthAfter("2026-01", -1), "2025-12");
});

test("a day with too many firings counts them by schedule, and a schedule with one keeps its time", () => {
  const due = (name: string, moment: number) => ({ name, workflow: "w", due: moment, note: "" });
  const many = [due("a", 1), due("b", 2), due("a", 3), due("a", 4)];
  assert.equal(cluster(many, 4).single.length, 4);
  const { single, counted } = cluster(many, 3);
  assert.deepEqual(single, [due("b", 2)]);
  assert.deepEqual(
    counted.map((one) => [one.name, one.items.length]),
    [["a", 3]],
  );
});

test("lines say what each item became, newest first, whatever part of the journal is at hand", () => {
  const all = [
    event("trigger.registered", { by: "ann" }),
    event("trigger.received", {
      items: [
        { number: 1, id: "60", nominal: 60 },
        { number: 2, id: "x", by_hand: true },
      ],
    }),
    event("trigger.started", {
      starts: [
        { numbers: [1], run_id: "r1" },
        { numbers: [2], run_id: "r2" },
      ],
    }),
    event("trigger.ended", { ends: [{ run_id: "r1", number: 1, state: "failed" }] }),
    event("trigger.skipped", { reason: "overlap", numbers: [2] }),
    event("trigger.skipped", { reason: "paused", count: 3, since: 1, until: 4 }),
    event("trigger.parked", { number: 2, error: { code: "invalid_inputs", message: "no" }, lane: 1 }),
    event("trigger.advanced", { reason: "empty" }),
    event("trigger.advanced", { reason: "rewound", by: "eve", note: "lost rows" }),
  ];
  const lines = linesOf(all);
  assert.deepEqual(
    lines.map((one) => one.kind),
    ["rewound", "parked", "skipped", "skipped", "run", "run", "registered"],
  );
  const [, parked, paused, overlap, second, first] = lines;
  assert.ok(parked?.kind === "parked" && parked.isBackfill && parked.code === "invalid_inputs");
  assert.ok(paused?.kind === "skipped" && paused.count === 3 && paused.until === 4);
  assert.ok(overlap?.kind === "skipped" && overlap.sources[0]?.byHand);
  assert.ok(second?.kind === "run" && second.run === "r2" && second.state === undefined);
  assert.ok(first?.kind === "run" && first.state === "failed" && first.source?.moment === 60);
  const some = linesOf(all.slice(2));
  assert.ok(some.at(-1)?.kind === "run", "what came in before is not at hand");
});

test("what a shell reads is quoted, wherever it comes from", () => {
  const verify = {
    scheme: "hmac",
    secret: "S",
    header: "x-sign",
    prefix: '$(id)"`',
    encoding: "hex",
    timestamp_header: "",
    signed: 'a"$b{body}',
    id_header: "",
  };
  const text = asShell("https://x.example/a'b", verify);
  assert.ok(text.includes('"x-sign: \\$(id)\\"\\`$SIGNED"'));
  assert.ok(text.includes('printf %s "a\\"\\$b$BODY"'));
  assert.ok(text.includes("'https://x.example/a'\\''b'"));
});

test("a trigger that is quarantined says so, and can only be deleted", () => {
  const trigger = { state: "quarantined", kind: "schedule", error: { code: "quarantined" } } as Trigger;
  assert.deepEqual(stateOf(trigger), { word: "quarantined", group: "bad" });
  assert.equal(whyNot("delete", trigger), undefined);
  for (const verb of ["fire", "pause", "resume", "backfill", "test"] as const)
    assert.match(whyNot(verb, trigger) ?? "", /quarantined/);
});
