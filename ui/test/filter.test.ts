import assert from "node:assert/strict";
import { test } from "node:test";
import { spell } from "../src/router.ts";
import {
  type Filter,
  fromText,
  isEmpty,
  readFilter,
  toConditions,
  toQuery,
  toText,
} from "../src/screens/runs/filter.ts";

const NONE = readFilter(new URLSearchParams());
const again = (filter: Filter) => readFilter(new URLSearchParams(spell(toQuery(filter))));

test("a filter is the same as text, in the address and in hand", () => {
  const text =
    'state:failed state:paused workflow:"a \\"b\\" c" version:2 tag:team=blue tag:x= since:24h until:1h by:ann';
  const found = fromText(`${text} by-end:1 children:1`, NONE) as Filter;
  assert.deepEqual(found.state, ["failed", "paused"]);
  assert.equal(found.workflow, 'a "b" c');
  assert.deepEqual(found.tag, ["team=blue", "x="]);
  assert.deepEqual(again(found), found);
  assert.deepEqual(fromText(toText(found), NONE), found);
  assert.equal(isEmpty(found), false);
  assert.equal(isEmpty(fromText("  ", found) as Filter), true);
});

test("a word without a key is a workflow, and what means nothing is named", () => {
  assert.equal((fromText("order", NONE) as Filter).workflow, "order");
  assert.deepEqual(fromText("colour:red", NONE), { key: "colour" });
  assert.deepEqual(fromText("tag:blue", NONE), { tag: "blue" });
  assert.equal((fromText("workflow:__proto__", NONE) as Filter).workflow, "__proto__");
  assert.deepEqual(fromText("constructor:1", NONE), { key: "constructor" });
});

test("times are those of the end where that is asked for", () => {
  const found = fromText("since:1h by-end:1", NONE) as Filter;
  const asked = toConditions(found, 7200);
  assert.equal(asked.ended_since, "3600");
  assert.equal(asked.since, undefined);
  assert.equal(toConditions({ ...found, byEnd: false }, 7200).since, "3600");
});
