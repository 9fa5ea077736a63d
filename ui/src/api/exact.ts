// JSON as it was sent: whole numbers that JavaScript cannot hold keep their digits.

/** A number with more digits than JavaScript has, by its text. */
export class Exact {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Reviver = (key: string, value: unknown, context?: { source?: string }) => unknown;

const keep: Reviver = (_key, value, context) => {
  if (typeof value !== "number" || !context?.source) return value;
  if (Number.isSafeInteger(value) || /[.eE]/.test(context.source)) return value;
  return new Exact(context.source);
};

export function parse(text: string): unknown {
  return /\d{16}/.test(text) ? JSON.parse(text, keep as (key: string, value: unknown) => unknown) : JSON.parse(text);
}

/** The text of a value, for copying: as it was sent, indented. */
export function print(value: unknown, indent = ""): string {
  if (value instanceof Exact) return value.text;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const more = `${indent}  `;
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]";
    return `[\n${value.map((one) => more + print(one, more)).join(",\n")}\n${indent}]`;
  }
  const entries = Object.entries(value);
  if (entries.length === 0) return "{}";
  return `{\n${entries.map(([name, one]) => `${more}${JSON.stringify(name)}: ${print(one, more)}`).join(",\n")}\n${indent}}`;
}

/** A value as one line of JSON; numbers that JavaScript cannot hold keep their digits, what is undefined is left out. */
export function write(value: unknown): string {
  if (value instanceof Exact) return value.text;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  if (Array.isArray(value)) return `[${value.map(write).join(",")}]`;
  const entries = Object.entries(value).filter(([, one]) => one !== undefined);
  return `{${entries.map(([name, one]) => `${JSON.stringify(name)}:${write(one)}`).join(",")}}`;
}
