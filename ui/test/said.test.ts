import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunEvent } from "../src/screens/run/events.ts";
import { saidOf } from "../src/screens/run/said.ts";

const event = (type: string, data: object, more: object = {}): RunEvent =>
  ({ seq: 1, type, version: 1, at: 100, cause: null, counter: 1, data, ...more }) as unknown as RunEvent;

test("an event says in a line what its data hold", () => {
  const failed = {
    error: { code: "error", message: "NoAnswer: nobody\n  at line 3" },
    retry_at: 101,
    started_at: 97.8,
  };
  assert.equal(
    saidOf(event("node.retrying", { ...failed, worker: "w-3" }, { attempt: 2 })),
    "attempt 2 · error: NoAnswer: nobody · again in 1.0 s · took 2.2 s · on w-3",
  );
  assert.equal(
    saidOf(
      event("nodes.scheduled", {
        places: [
          ["a", [], null, 1, 1],
          ["b", [], null, 1, 1],
        ],
      }),
    ),
    "a and b",
  );
  assert.equal(saidOf(event("node.completed", { route: { rule: "x", taken: ["confirm"] } })), "goes on to confirm");
  assert.equal(saidOf(event("node.waiting", { wait: { kind: "approval", name: "x" } })), "for a person");
  assert.equal(saidOf(event("run.paused", { by: "eve", reason: "stock_taking" })), "stock taking · by eve");
  assert.equal(saidOf(event("run.signalled", { name: "paid", by: "ann" })), "signal paid · by ann");
});

test("data of any shape make a line, and a long one is cut", () => {
  for (const data of [
    null,
    7,
    [],
    { error: 7, route: null, wait: "x", places: 3, approvers: {} },
    { reason: { a: 1 } },
  ])
    assert.equal(typeof saidOf(event("x.y", data as object)), "string");
  assert.ok(saidOf(event("node.failed", { error: { code: "x".repeat(500) } })).length <= 201);
});
