import assert from "node:assert/strict";
import { test } from "node:test";
import { namesAt } from "../src/screens/editor/naming.ts";

const definition = {
  inputs: { type: "object", properties: { city: { type: "string" }, "odd name": { type: "string" } } },
  nodes: [
    { id: "order", type: "transform", config: { value: { total: 7, lines: [] } } },
    { id: "ask", type: "human", config: {}, dependencies: ["order"] },
    { id: "ship", type: "task", config: {}, loop: { condition: "true" } },
    { id: "apart", type: "task", config: {} },
  ],
  edges: [{ from: "ask", to: "ship" }],
};
const kinds = [
  { name: "human", output_schema: { properties: { decision: {}, data: { properties: { note: {} } } } } },
  { name: "task" },
];

test("a node names what is done before it, with the fields that are known, and the inputs", () => {
  assert.deepEqual(namesAt(definition, "ship", kinds), [
    "loop.iteration",
    "ask",
    "ask.decision",
    "ask.data",
    "ask.data.note",
    "order",
    "order.total",
    "order.lines",
    "inputs.city",
  ]);
  assert.deepEqual(namesAt(definition, "order", kinds), ["inputs.city"]);
});

test("nodes that lead round to each other are each named once", () => {
  const round = {
    nodes: [{ id: "a" }, { id: "b" }],
    edges: [
      { from: "a", to: "b" },
      { from: "b", to: "a" },
    ],
  };
  assert.deepEqual(namesAt(round, "a", []), ["b"]);
});
