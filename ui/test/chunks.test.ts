import assert from "node:assert/strict";
import { test } from "node:test";
import { write } from "../src/api/exact.ts";
import { isBefore } from "../src/api/stream.ts";
import { NOTHING, withFrames } from "../src/screens/run/chunks.ts";

const chunk = (edition: number, number: number, value: unknown) => ({
  id: `${edition}.${number}`,
  event: "chunk",
  data: `{"edition":${edition},"number":${number},"chunk":${JSON.stringify(value)}}`,
});

test("words run on, and the end says why nothing more comes", () => {
  const frames = [chunk(1, 1, "one "), chunk(1, 2, "two")];
  const flow = withFrames(NOTHING, frames, write);
  assert.equal(flow.kept.map((one) => one.text).join(""), "one two");
  assert.deepEqual([flow.count, flow.isText, flow.end], [2, true, ""]);
  const end = { id: "1.2", event: "end", data: '{"edition":1,"number":2,"reason":"failed","error":"x: y"}' };
  const over = withFrames(flow, [end], write);
  assert.deepEqual([over.end, over.error, over.count], ["failed", "x: y", 2]);
});

test("what came of another edition counts no more", () => {
  const flow = withFrames(NOTHING, [chunk(1, 1, "a"), chunk(1, 2, "b")], write);
  const restart = { id: "2.0", event: "restart", data: '{"edition":2}' };
  const anew = withFrames(flow, [restart, chunk(2, 1, "c")], write);
  assert.deepEqual([anew.edition, anew.count, anew.restarts, anew.kept.map((one) => one.text)], [2, 1, 1, ["c"]]);
});

test("a first frame of a later edition is no new beginning that was seen", () => {
  assert.equal(withFrames(NOTHING, [chunk(3, 1, "a")], write).restarts, 0);
});

test("numbers keep their digits, and only the newest chunks are kept", () => {
  const big = { id: "1.1", event: "chunk", data: '{"edition":1,"number":1,"chunk":9223372036854775807}' };
  assert.equal(withFrames(NOTHING, [big], write).kept[0]?.text, "9223372036854775807");
  const many = Array.from({ length: 3000 }, (_, index) => chunk(1, index + 1, index));
  const flow = withFrames(NOTHING, many, write);
  assert.deepEqual([flow.count, flow.kept.length, flow.kept.at(-1)?.number], [3000, 500, 3000]);
});

test("after a connection was cut, what came already is left", () => {
  assert.equal(isBefore("1.2", ""), false);
  assert.equal(isBefore("1.2", "1.2"), true);
  assert.equal(isBefore("1.10", "1.9"), false);
  assert.equal(isBefore("1.10", "2.0"), true);
  assert.equal(isBefore("2.0", "1.9"), false);
});
