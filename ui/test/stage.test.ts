import assert from "node:assert/strict";
import { test } from "node:test";
import { liveOf } from "../src/screens/run/store.ts";
import { stageOf } from "../src/screens/welcome/stage.ts";

test("the hint of the first minute never goes back", () => {
  const none = { ended: false, asked: false, killed: false };
  assert.equal(stageOf(none, 1), 1);
  assert.equal(stageOf({ ...none, killed: true }, 1), 2);
  assert.equal(stageOf({ ...none, asked: true }, 1), 3);
  assert.equal(stageOf(none, 3), 3); // decided, and not yet ended
  assert.equal(stageOf({ ...none, killed: true }, 3), 3);
  assert.equal(stageOf({ ...none, ended: true }, 3), 4);
});

test("a stream has ended for the reader once the run that is shown has", () => {
  const ended = { state: "ended", seconds: 0 } as const;
  assert.equal(liveOf(ended, { state: "running" } as never).state, "live");
  assert.equal(liveOf(ended, undefined).state, "live");
  assert.equal(liveOf(ended, { state: "completed" } as never).state, "ended");
  assert.equal(liveOf({ state: "waiting", seconds: 3 }, { state: "running" } as never).seconds, 3);
});
