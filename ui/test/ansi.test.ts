import assert from "node:assert/strict";
import { test } from "node:test";
import { readColours, withoutColours } from "../src/kit/ansi.ts";

const ESC = "\u001b[";

test("a line without sequences is one piece as it was", () => {
  assert.deepEqual(readColours("plain <b>"), [{ text: "plain <b>", look: "" }]);
});

test("colours and bold go on until they are taken back", () => {
  const line = `a ${ESC}31mred ${ESC}1mbold${ESC}22m still${ESC}39m b ${ESC}92mgreen${ESC}0m end`;
  assert.deepEqual(readColours(line), [
    { text: "a ", look: "" },
    { text: "red ", look: "red" },
    { text: "bold", look: "bold red" },
    { text: " still", look: "red" },
    { text: " b ", look: "" },
    { text: "green", look: "green" },
    { text: " end", look: "" },
  ]);
});

test("what is no colour is left out, and colours of larger sets change nothing", () => {
  assert.deepEqual(readColours(`${ESC}2Jx${ESC}38;5;31my${ESC}38;2;31;32;33mz${ESC}48;5;1mw`), [
    { text: "x", look: "" },
    { text: "y", look: "" },
    { text: "z", look: "" },
    { text: "w", look: "" },
  ]);
  assert.equal(withoutColours(`${ESC}31mred${ESC}0m`), "red");
});

test("a sequence that does not end, or is endless, stays as it came", () => {
  const odd = `${ESC}${"1;".repeat(30)}m`;
  assert.equal(
    readColours(odd)
      .map((one) => one.text)
      .join(""),
    odd,
  );
});
