import assert from "node:assert/strict";
import { test } from "node:test";
import { FrameReader } from "../src/api/stream.ts";

const TEXT =
  'retry: 1000\n\n: still here\n\nid: 1\nevent: run.created\ndata: {"seq":1}\n\nevent: working\r\ndata: a\r\ndata:b\r\n\r\nid:2\ndata: é\n\n';
const WANTED = [
  { id: "1", event: "run.created", data: '{"seq":1}' },
  { id: "", event: "working", data: "a\nb" },
  { id: "2", event: "message", data: "é" },
];

test("frames are the same wherever the text is cut", () => {
  for (let first = 0; first <= TEXT.length; first++) {
    for (let second = first; second <= TEXT.length; second += 3) {
      const reader = new FrameReader();
      const found = [TEXT.slice(0, first), TEXT.slice(first, second), TEXT.slice(second)].flatMap((piece) =>
        reader.read(piece),
      );
      assert.deepEqual(found, WANTED);
    }
  }
});

test("what is not whole is not given", () => {
  assert.deepEqual(new FrameReader().read("id: 1\ndata: x\n"), []);
});
