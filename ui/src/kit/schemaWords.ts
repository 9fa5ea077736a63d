// What a JSON Schema says of one key, in a few words.

import { words } from "../words/workflows.ts";
import { choicesOf, isObject, type Schema } from "./schema.ts";

const text = words.nodeType.keys;

/** What a value may be: its choices where it has some, else its types. */
export function typesOf(schema: Schema): string {
  const choices = choicesOf(schema);
  if (choices) return choices.map((one) => one.title).join(" | ");
  if ("const" in schema) return String(schema.const);
  const several = [schema.anyOf, schema.oneOf].find(Array.isArray);
  if (several) return [...new Set(several.filter(isObject).map(typesOf))].join(" | ");
  const types = Array.isArray(schema.type) ? schema.type : schema.type === undefined ? [] : [schema.type];
  if (types.length === 0) return text.anything;
  return types.map((one) => text.types[String(one)] ?? String(one)).join(" | ");
}

/** Its limits: the least and the most, of a number or of a length. */
export function limitsOf(schema: Schema): string[] {
  const found: string[] = [];
  for (const [key, say] of Object.entries(text.limits)) {
    const value = schema[key];
    if (typeof value === "number") found.push(say(value));
  }
  return found;
}
