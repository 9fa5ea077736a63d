import assert from "node:assert/strict";
import { test } from "node:test";
import { isOwnPath, match, readPlace, spell } from "../src/router.ts";

test("a path fits its pattern, and says what stands in it", () => {
  assert.deepEqual(match("/runs/{run_id}", "/runs/r1"), { run_id: "r1" });
  assert.deepEqual(match("/runs/{run_id}", "/runs/a%20b:c"), { run_id: "a b:c" });
  assert.equal(match("/runs/{run_id}", "/runs"), undefined);
  assert.equal(match("/runs/{run_id}", "/runs/"), undefined);
  assert.equal(match("/runs/{run_id}", "/runs/a/b"), undefined);
  assert.equal(match("/runs/{run_id}", "/runs/%E0%A4%A"), undefined);
});

test("a prefix is no part of a place", () => {
  assert.equal(readPlace("/perdure/runs", "", "/perdure").path, "/runs");
  assert.equal(readPlace("/perdure", "", "/perdure").path, "/");
  assert.equal(readPlace("/runs", "?a=1", "").query.get("a"), "1");
});

test("a query has each value once, and none that is empty", () => {
  assert.equal(
    spell({ state: ["failed", "paused"], workflow: "", tag: undefined, q: "a b" }),
    "?state=failed&state=paused&q=a+b",
  );
  assert.equal(spell({}), "");
});

test("only paths of this site are followed after a login", () => {
  for (const good of ["/", "/runs", "/runs/r1?tab=journal"]) assert.ok(isOwnPath(good), good);
  for (const bad of [
    "//evil.example",
    "/\\evil.example",
    "https://evil.example",
    "javascript:alert(1)",
    "",
    "runs",
    "/a\\b",
    "/\n/x",
  ])
    assert.ok(!isOwnPath(bad), bad);
});
