import assert from "node:assert/strict";
import { test } from "node:test";
import { fateOf, type Wire } from "../src/graph/model.ts";
import type { NodeView } from "../src/screens/run/store.ts";

const wire = (kind: string): Wire => ({
  from: "ask",
  to: "ask",
  kind,
  label: null,
  label_place: null,
  line: { start: [], curves: [] },
});
const nodes = (visit: number) =>
  new Map<string, NodeView>([["ask", { state: "completed", visit, attempt: 1, route: { taken: ["done"] } }]]);

test("the way back of a loop is taken as soon as the loop went round, and stays so", () => {
  assert.equal(fateOf(wire("back"), nodes(1)), "skipped");
  assert.equal(fateOf(wire("back"), nodes(4)), "taken");
  assert.equal(fateOf(wire("failure"), nodes(4)), "skipped");
});
