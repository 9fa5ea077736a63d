import assert from "node:assert/strict";
import { test } from "node:test";
import type { Wire } from "../src/graph/model.ts";
import { along, Motion, measured } from "../src/graph/motion.ts";

function wireTo(x: number): Wire {
  const curves = [
    [
      [x / 3, 0],
      [(2 * x) / 3, 0],
      [x, 0],
    ],
  ];
  return { from: "a", to: "b", kind: "plain", label: null, label_place: null, line: { start: [0, 0], curves } };
}

const never = () => false;
const always = () => true;

test("a dot goes along a wire evenly, from its beginning to its end", () => {
  const path = measured(wireTo(90));
  for (const part of [0, 0.25, 0.5, 1]) assert.deepEqual(along(path, part), { x: 90 * part, y: 0 });
});

test("a wire that the run went along has one dot, for one trip", () => {
  const motion = new Motion();
  const wire = wireTo(90);
  motion.send([wire], 0);
  assert.deepEqual(motion.dots([wire], 0, never), [{ x: 0, y: 0 }]);
  assert.equal(motion.dots([wire], 450, never)[0]?.x, 45);
  assert.deepEqual(motion.dots([wire], 900, never), []);
  assert.equal(motion.moves, false);
});

test("while it is used the dot begins again, and what is out of sight has none", () => {
  const motion = new Motion();
  const wire = wireTo(90);
  assert.equal(motion.dots([wire], 0, always).length, 1);
  assert.equal(motion.dots([wire], 1300 + 450, always)[0]?.x, 45);
  assert.deepEqual(motion.dots([], 1300 + 450, always), []);
  assert.equal(motion.dots([wire], 9999, never).length, 0);
  assert.equal(motion.moves, false);
});

test("of a swarm nothing moves", () => {
  const motion = new Motion();
  const wires = Array.from({ length: 200 }, (_, index) => wireTo(index + 1));
  motion.send(wires, 0);
  assert.deepEqual(motion.dots(wires, 0, always), []);
  assert.equal(motion.moves, false);
});
