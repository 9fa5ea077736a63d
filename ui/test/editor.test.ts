import assert from "node:assert/strict";
import { test } from "node:test";
import { makePatch, merge, type Operation } from "../src/screens/editor/patch.ts";

/** Apply a patch as RFC 6902 says, as far as these patches go. */
function apply(document: unknown, operations: readonly Operation[]): unknown {
  const root = { "": structuredClone(document) } as Record<string, unknown>;
  for (const { op, path, value } of operations) {
    const parts = ["", ...path.split("/").slice(1)].map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
    const last = parts.pop()!;
    let target: Record<string, unknown> | unknown[] = root;
    for (const part of parts) target = (target as Record<string, unknown>)[part] as Record<string, unknown>;
    if (Array.isArray(target)) {
      if (op === "add") target.splice(Number(last), 0, structuredClone(value));
      else if (op === "remove") target.splice(Number(last), 1);
      else target[Number(last)] = structuredClone(value);
    } else if (op === "remove") delete target[last];
    else target[last] = structuredClone(value);
  }
  return root[""];
}

/** Numbers that look random and are the same each time. */
function chance(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return state / 2147483648;
  };
}

function made(next: () => number, depth: number): unknown {
  const kind = Math.floor(next() * (depth ? 6 : 4));
  if (kind === 0) return Math.floor(next() * 4);
  if (kind === 1) return ["a", "b/c", "d~e", ""][Math.floor(next() * 4)];
  if (kind === 2) return null;
  if (kind === 3) return next() < 0.5;
  const many = Math.floor(next() * 4);
  if (kind === 4) return Array.from({ length: many }, () => made(next, depth - 1));
  return Object.fromEntries(
    Array.from({ length: many }, (_, index) => [["x", "y/z", "~w", "v"][index], made(next, depth - 1)]),
  );
}

test("a patch makes what it was made for", () => {
  for (let seed = 1; seed <= 2000; seed++) {
    const next = chance(seed);
    const [before, after] = [made(next, 3), made(next, 3)];
    assert.deepEqual(apply(before, makePatch(before, after)), after, `seed ${seed}`);
    assert.deepEqual(makePatch(after, after), []);
  }
});

const BASE = {
  name: "w",
  nodes: [
    { id: "a", config: { value: 1 } },
    { id: "b", config: { value: 2 } },
  ],
  edges: [],
};
const mine = { ...BASE, nodes: [{ id: "a", config: { value: 7 } }, BASE.nodes[1], { id: "c", config: {} }] };

test("changes of different nodes come together, and what one took out stays out", () => {
  const theirs = { ...BASE, description: "new", nodes: [BASE.nodes[0], { id: "b", config: { value: 9 } }] };
  const found = merge(BASE, mine, theirs, () => "mine");
  assert.deepEqual(found.clashes, []);
  assert.deepEqual(found.value, {
    name: "w",
    nodes: [
      { id: "a", config: { value: 7 } },
      { id: "b", config: { value: 9 } },
      { id: "c", config: {} },
    ],
    edges: [],
    description: "new",
  });
  const without = { ...BASE, nodes: [BASE.nodes[0]] };
  const less = merge(BASE, mine, without, () => "mine").value as typeof BASE;
  assert.deepEqual(
    less.nodes.map((node) => node.id),
    ["a", "c"],
  );
});

test("where both changed the same, it is asked, and either is kept whole", () => {
  const theirs = { ...BASE, nodes: [{ id: "a", config: { value: 8 } }, BASE.nodes[1]] };
  const found = merge(BASE, mine, theirs, () => "theirs");
  assert.deepEqual(
    found.clashes.map((clash) => [clash.path.join(" "), clash.mine, clash.theirs]),
    [["nodes a config value", 7, 8]],
  );
  assert.equal((found.value as typeof BASE).nodes[0]!.config.value, 8);
  assert.equal((merge(BASE, mine, theirs, () => "mine").value as typeof BASE).nodes[0]!.config.value, 7);
});
