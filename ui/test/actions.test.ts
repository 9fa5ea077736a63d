import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { Exact, parse, write } from "../src/api/exact.ts";
import { asCommand, asCurl, asPython, quote, toPython } from "../src/kit/commands.ts";
import { findDifferences } from "../src/kit/diff.ts";
import { bodyOf, doingOf, type Given } from "../src/screens/run/sheet/doing.ts";
import { words as said } from "../src/words/actions.ts";

const NOTHING: Given = { reason: "", fromNode: "", inputs: undefined, name: "", payload: null, signalId: "" };
const HOSTILE = ["it's", "$(rm -rf /)", "`id`", 'a"b', "a\\b", "a\nb", "--help", "; ls", "é漢🙂", "", "a b", "!x", "*"];

test("what is copied for a shell is taken by it as it was", () => {
  for (const text of HOSTILE) {
    const found = execFileSync("/bin/sh", ["-c", `printf '%s' ${quote(text)}`], { encoding: "utf8" });
    assert.equal(found, text);
  }
  assert.equal(quote("run-1:node:2"), "run-1:node:2");
});

test("values are written as Python has them", () => {
  assert.equal(toPython({ a: [1, true, null, "x"] }), '{"a": [1, True, None, "x"]}');
  assert.equal(toPython("🙂é"), '"\\U0001f642\\u00e9"');
  assert.equal(toPython(new Exact("9223372036854775807")), "9223372036854775807");
});

test("numbers keep their digits on the way to the server, and what is not given is not sent", () => {
  assert.equal(write(parse('{"n":9223372036854775807,"x":[1.5,null]}')), '{"n":9223372036854775807,"x":[1.5,null]}');
  assert.equal(write({ a: undefined, b: "x" }), '{"b":"x"}');
});

test("an action is the same request in three languages, without a secret", () => {
  const doing = doingOf("r 1", "cancel", { ...NOTHING, reason: "it's enough" });
  const server = "http://127.0.0.1:8700";
  assert.equal(asCommand(doing, server), `perdure runs cancel 'r 1' --reason 'it'\\''s enough' --server ${server}`);
  assert.equal(
    asCurl(doing, server, true),
    `curl -sS -X POST ${server}/api/v1/runs/r%201/cancel -H "Authorization: Bearer $PERDURE_API_KEY" -H 'Content-Type: application/json' -d '{"reason":"it'\\''s enough"}'`,
  );
  assert.match(asPython(doing, server, false), /client\.runs\.cancel\("r 1", reason="it's enough"\)/);
  const rerun = doingOf("r", "rerun", { ...NOTHING, fromNode: "b", inputs: { a: { n: 1 } } });
  assert.equal(asCommand(rerun, server), `perdure runs rerun r --from b -i 'a={"n":1}' --server ${server}`);
  assert.deepEqual(bodyOf("force", NOTHING), { force: true });
  const signal = doingOf("r", "signal", { ...NOTHING, name: "paid", payload: { amount: 12 }, signalId: "k" });
  assert.equal(
    asCommand(signal, server),
    `perdure runs signal r paid '{"amount":12}' --signal-id k --server ${server}`,
  );
  assert.match(asPython(signal, server, true), /signal\("r", "paid", \{"amount": 12\}, signal_id="k"\)/);
});

test("differences have the places that the server records", () => {
  assert.deepEqual(findDifferences({ a: 1, "b/c": [1, 2], d: "x" }, { a: 2, "b/c": [1], e: null, d: "x" }), [
    { path: "/a", change: "changed", before: 1, after: 2 },
    { path: "/b~1c/1", change: "removed", before: 2 },
    { path: "/e", change: "added", after: null },
  ]);
  assert.deepEqual(findDifferences(new Exact("1"), new Exact("1")), []);
  assert.equal(findDifferences(JSON.parse('{"__proto__": 1}'), {}).length, 1);
});

test("who is asked is said in a whole sentence", () => {
  const { approval } = said.why;
  assert.equal(approval("confirm", ["you"]), "confirm waits for a person: you are asked");
  assert.equal(approval("confirm", ["ann"]), "confirm waits for a person: ann is asked");
  assert.equal(approval("confirm", ["ann", "bob"]), "confirm waits for a person: ann and bob are asked");
  assert.equal(approval("confirm", []), "confirm waits for a person: anyone may decide");
});
