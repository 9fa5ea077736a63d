// Changes of a definition: what was changed as a JSON Patch, and two changes of the same brought together.
import { print } from "../../api/exact.ts";

export interface Operation {
  readonly op: "add" | "remove" | "replace";
  readonly path: string;
  readonly value?: unknown;
}

type Branch = Record<string, unknown>;

const isBranch = (value: unknown): value is Branch =>
  value !== null &&
  typeof value === "object" &&
  !Array.isArray(value) &&
  Object.getPrototypeOf(value) === Object.prototype;

export const same = (one: unknown, two: unknown): boolean => one === two || print(one) === print(two);

const step = (name: string | number): string => `/${String(name).replaceAll("~", "~0").replaceAll("/", "~1")}`;

/** The operations that make `after` from `before`. */
export function makePatch(before: unknown, after: unknown, path = ""): Operation[] {
  if (same(before, after)) return [];
  if (isBranch(before) && isBranch(after)) {
    const found: Operation[] = [];
    for (const name of Object.keys(before)) if (!(name in after)) found.push({ op: "remove", path: path + step(name) });
    for (const [name, value] of Object.entries(after)) {
      if (name in before) found.push(...makePatch(before[name], value, path + step(name)));
      else found.push({ op: "add", path: path + step(name), value });
    }
    return found;
  }
  if (Array.isArray(before) && Array.isArray(after)) return makeListPatch(before, after, path);
  return [{ op: "replace", path, value: after }];
}

function makeListPatch(before: readonly unknown[], after: readonly unknown[], path: string): Operation[] {
  if (before.length === after.length)
    return after.flatMap((value, index) => makePatch(before[index], value, path + step(index)));
  let head = 0;
  while (head < before.length && head < after.length && same(before[head], after[head])) head += 1;
  let tail = 0;
  while (
    tail < before.length - head &&
    tail < after.length - head &&
    same(before[before.length - 1 - tail], after[after.length - 1 - tail])
  )
    tail += 1;
  const found: Operation[] = [];
  for (let index = before.length - tail - 1; index >= head; index--)
    found.push({ op: "remove", path: path + step(index) });
  for (let index = head; index < after.length - tail; index++)
    found.push({ op: "add", path: path + step(index), value: after[index] });
  return found;
}

// -- two changes of one definition

export interface Clash {
  /** What both changed, in words of the definition: `nodes charge config value`. */
  readonly path: readonly string[];
  readonly mine: unknown;
  readonly theirs: unknown;
}

export interface Merged {
  readonly value: unknown;
  readonly clashes: readonly Clash[];
}

const idOf = (value: unknown): string | undefined =>
  isBranch(value) && typeof value.id === "string" ? value.id : undefined;
const endsOf = (value: unknown): string | undefined =>
  isBranch(value) && typeof value.from === "string" && typeof value.to === "string"
    ? `${value.from} → ${value.to}${value.kind === undefined ? "" : ` ${print(value.kind)}`}`
    : undefined;

/** A list of things that have names as an object by name, so that a change of one is no change of the others. */
function named(value: unknown): Branch | undefined {
  if (!Array.isArray(value)) return undefined;
  const found: Branch = {};
  for (const one of value) {
    const name = idOf(one) ?? endsOf(one);
    if (name === undefined || name in found) return undefined;
    found[name] = one;
  }
  return found;
}

/** What both made of the same. Where they changed the same thing differently, `choose` decides. */
export function merge(
  base: unknown,
  mine: unknown,
  theirs: unknown,
  choose: (path: readonly string[]) => "mine" | "theirs",
  path: readonly string[] = [],
): Merged {
  if (same(mine, theirs) || same(base, theirs)) return { value: mine, clashes: [] };
  if (same(base, mine)) return { value: theirs, clashes: [] };
  const lists = [named(base ?? []), named(mine), named(theirs)] as const;
  if (lists.every((one) => one !== undefined) && Array.isArray(mine)) {
    const merged = mergeBranches(lists[0]!, lists[1]!, lists[2]!, choose, path);
    return { value: Object.values(merged.value as Branch), clashes: merged.clashes };
  }
  if (isBranch(mine) && isBranch(theirs)) return mergeBranches(isBranch(base) ? base : {}, mine, theirs, choose, path);
  return { value: choose(path) === "mine" ? mine : theirs, clashes: [{ path, mine, theirs }] };
}

function mergeBranches(
  base: Branch,
  mine: Branch,
  theirs: Branch,
  choose: (path: readonly string[]) => "mine" | "theirs",
  path: readonly string[],
): Merged {
  const value: Branch = {};
  const clashes: Clash[] = [];
  for (const name of new Set([...Object.keys(theirs), ...Object.keys(mine)])) {
    const found = merge(base[name], mine[name], theirs[name], choose, [...path, name]);
    clashes.push(...found.clashes);
    if (found.value !== undefined) value[name] = found.value;
  }
  return { value, clashes };
}

/** The names of the nodes that are not the same in both. */
export function movedNodes(before: unknown, after: unknown): string[] {
  const nodesOf = (definition: unknown): Branch => named(isBranch(definition) ? definition.nodes : undefined) ?? {};
  const [one, two] = [nodesOf(before), nodesOf(after)];
  return [...new Set([...Object.keys(one), ...Object.keys(two)])].filter((name) => !same(one[name], two[name]));
}
