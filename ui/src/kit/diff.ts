// Differences between two values by their place, as the server records them: the same paths in the same order.
import { Exact } from "../api/exact.ts";

export interface Difference {
  readonly path: string;
  readonly change: "added" | "removed" | "changed";
  readonly before?: unknown;
  readonly after?: unknown;
}

const MOST = 1000;

const isObject = (value: unknown): value is Record<string, unknown> =>
  value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Exact);

function isSame(one: unknown, two: unknown): boolean {
  if (one instanceof Exact && two instanceof Exact) return one.text === two.text;
  return Object.is(one, two);
}

export function findDifferences(before: unknown, after: unknown, path = "", found: Difference[] = []): Difference[] {
  if (found.length >= MOST || isSame(before, after)) return found;
  if (isObject(before) && isObject(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
    for (const name of names) {
      const place = `${path}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
      compare(before, after, name, place, Object.hasOwn(before, name), Object.hasOwn(after, name), found);
    }
  } else if (Array.isArray(before) && Array.isArray(after)) {
    for (let index = 0; index < Math.max(before.length, after.length); index += 1)
      compare(before, after, index, `${path}/${index}`, index < before.length, index < after.length, found);
  } else found.push({ path, change: "changed", before, after });
  return found;
}

function compare(
  before: unknown,
  after: unknown,
  key: string | number,
  path: string,
  inBefore: boolean,
  inAfter: boolean,
  found: Difference[],
): void {
  if (found.length >= MOST) return;
  const one = (before as Record<string | number, unknown>)[key];
  const two = (after as Record<string | number, unknown>)[key];
  if (!inAfter) found.push({ path, change: "removed", before: one });
  else if (!inBefore) found.push({ path, change: "added", after: two });
  else findDifferences(one, two, path, found);
}
