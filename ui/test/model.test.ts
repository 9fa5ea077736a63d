import assert from "node:assert/strict";
import { test } from "node:test";
import { fateIn, fateOf, itemsOf, type Wire } from "../src/graph/model.ts";
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

test("a wire of a stack is taken when the run went between any two of its nodes", () => {
  const made = (state: NodeView["state"]) =>
    new Map<string, NodeView>([
      ["one", { state: "skipped", visit: 1, attempt: 1 }],
      ["two", { state, visit: 1, attempt: 1 }],
      ["join", { state: "pending", visit: 0, attempt: 0 }],
    ]);
  const members = (id: string) => (id === "stack" ? ["one", "two"] : []);
  const out = { ...wire("plain"), from: "stack", to: "join" };
  assert.equal(fateIn(out, members, made("completed"), undefined), "taken");
  assert.equal(fateIn(out, members, made("running"), undefined), "open");
  assert.equal(fateIn(out, members, made("skipped"), undefined), "skipped");
  assert.equal(
    fateIn(out, members, new Map(), (from) => (from === "two" ? "taken" : "open")),
    "taken",
  );
});

test("a map says how many items it has before they have begun", () => {
  const node: NodeView = { state: "waiting", visit: 1, attempt: 1, items: { completed: 1, failed: 1, open: 4 } };
  assert.equal(itemsOf(node).all, 6);
  assert.equal(itemsOf({ ...node, waiting_for: { kind: "items", count: 40 } }).all, 40);
  assert.equal(itemsOf({ ...node, waiting_for: { kind: "signal", name: "paid" } }).all, 6);
  assert.equal(itemsOf(undefined).all, 0);
});
