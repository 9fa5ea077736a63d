import assert from "node:assert/strict";
import { test } from "node:test";
import { holds, pointerOf, templateOf } from "../src/kit/paths.ts";

test("a place is written as a pointer and as a template", () => {
  assert.equal(pointerOf(["a/b", 0, "c~d"]), "/a~1b/0/c~0d");
  assert.equal(pointerOf([]), "");
  assert.equal(templateOf("charge", ["lines", 0, "total"]), "{{ charge.lines[0].total }}");
  assert.equal(templateOf("inputs", ["first name"]), '{{ inputs["first name"] }}');
  assert.equal(templateOf("charge", []), "{{ charge }}");
});

test("a text is found in a key, and anywhere below", () => {
  assert.ok(holds("Total", 1, "total"));
  assert.ok(holds("a", { b: ["Lamp"] }, "lamp"));
  assert.ok(!holds("a", { b: ["Lamp"] }, "desk"));
  assert.ok(!holds(7, "x", "7"));
});
