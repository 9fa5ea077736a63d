import assert from "node:assert/strict";
import { test } from "node:test";
import { suiting } from "../src/graph/direction.ts";
import type { Graph } from "../src/graph/drawing.ts";

const ROOM = { width: 800, height: 400 };

function reader(down: [number, number], right: [number, number], nodes = 8) {
  const asked: unknown[] = [];
  const read = async (direction: Graph["direction"] | undefined) => {
    asked.push(direction);
    const [width, height] = direction === "right" ? right : down;
    return { direction: direction ?? "down", width, height, nodes: Array.from({ length: nodes }) } as unknown as Graph;
  };
  return { asked, read };
}

test("a graph that is read well is asked for once", async () => {
  const { asked, read } = reader([300, 400], [400, 300]);
  assert.equal((await suiting(read, ROOM)).direction, "down");
  assert.deepEqual(asked, [undefined]);
});

test("one that would be small is turned where that makes it much larger", async () => {
  const { asked, read } = reader([300, 900], [1000, 200]);
  assert.equal((await suiting(read, ROOM)).direction, "right");
  assert.deepEqual(asked, [undefined, "right"]);
});

test("it stays as it is where turning it helps little, where it is large, and where the room is not known", async () => {
  assert.equal((await suiting(reader([300, 900], [1700, 200]).read, ROOM)).direction, "down");
  assert.equal((await suiting(reader([300, 900], [1000, 200], 201).read, ROOM)).direction, "down");
  assert.equal((await suiting(reader([300, 900], [1000, 200]).read, { width: 0, height: 0 })).direction, "down");
});
