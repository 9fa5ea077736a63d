// What the form of an approval begins with: what is shown where it fits, else what the schema names.
import { resolve, type Schema } from "../../kit/schema.ts";

const isObject = (value: unknown): value is Record<string, unknown> =>
  value !== null && typeof value === "object" && !Array.isArray(value);

export function firstValue(root: Schema, schema: Schema, shown: unknown, depth = 0): unknown {
  const found = resolve(root, schema);
  if ("const" in found) return found.const;
  if (!isObject(found.properties) || depth > 12) return shown === undefined ? found.default : shown;
  const given = isObject(shown) ? shown : isObject(found.default) ? found.default : {};
  const made: Record<string, unknown> = {};
  for (const [name, one] of Object.entries(found.properties)) {
    const before = Object.hasOwn(given, name) ? given[name] : undefined;
    const value = isObject(one) ? firstValue(root, one, before, depth + 1) : before;
    // Defined, not assigned: a property may be called `__proto__`.
    if (value !== undefined)
      Object.defineProperty(made, name, { value, enumerable: true, configurable: true, writable: true });
  }
  return made;
}
