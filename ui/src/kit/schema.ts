// What a form needs to know of a JSON Schema.
import { print } from "../api/exact.ts";

export type Schema = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is Record<string, unknown> =>
  value !== null && typeof value === "object" && !Array.isArray(value);

/** The schema that a reference of the same document means. */
export function resolve(root: Schema, schema: Schema): Schema {
  let found = schema;
  for (let depth = 0; depth < 16 && typeof found.$ref === "string"; depth++) {
    let target: unknown = root;
    for (const part of found.$ref.replace(/^#\/?/, "").split("/").filter(Boolean))
      target = isObject(target) ? target[part.replaceAll("~1", "/").replaceAll("~0", "~")] : undefined;
    if (!isObject(target)) return {};
    found = target;
  }
  return found;
}

/** What a form begins with: the defaults that a schema names. */
export function defaultsOf(root: Schema, given: Schema = root): unknown {
  const schema = resolve(root, given);
  if ("default" in schema) return schema.default;
  if ("const" in schema) return schema.const;
  if (schema.type !== "object" || !isObject(schema.properties)) return undefined;
  const found: Record<string, unknown> = {};
  for (const [name, one] of Object.entries(schema.properties)) {
    const value = isObject(one) ? defaultsOf(root, one) : undefined;
    if (value !== undefined) found[name] = value;
  }
  return found;
}

/** As many lines as a text has, within reason: what a field holds is seen without scrolling in it. */
export const rowsOf = (text: string): number => Math.min(14, Math.max(2, text.split("\n").length));

/** The choices of a schema that names its values. */
export function choicesOf(schema: Schema): { value: unknown; title: string }[] | undefined {
  const spell = (value: unknown) => (typeof value === "string" ? value : print(value));
  if (Array.isArray(schema.enum)) return schema.enum.map((value) => ({ value, title: spell(value) }));
  const { oneOf } = schema;
  if (!Array.isArray(oneOf) || !oneOf.every((one) => isObject(one) && "const" in one)) return undefined;
  return oneOf.map((one) => ({
    value: one.const,
    title: typeof one.title === "string" ? one.title : spell(one.const),
  }));
}
