// A definition as YAML that people read: short flat things in one line, the rest in blocks. The server reads it.
import { Exact } from "../../api/exact.ts";

const WORDS = /^(true|false|null|yes|no|on|off|y|n|~)$/i;
const PLAIN = /^[A-Za-z_][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*$/;
const LONGEST = 80;

function text(value: string): string {
  if (PLAIN.test(value) && !WORDS.test(value)) return value;
  const spelled = (one: string) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(value).replaceAll(/[\u007f-\u009f\u2028\u2029\ufeff]/g, spelled);
}

function scalar(value: unknown): string {
  if (value instanceof Exact) return value.text;
  if (typeof value === "string") return text(value);
  const said = JSON.stringify(value) ?? "null";
  // A number with an exponent needs a point, or it is a text to some readers.
  return typeof value === "number" && /^-?\d+e/.test(said) ? said.replace("e", ".0e") : said;
}

const isBranch = (value: unknown): value is object =>
  value !== null && typeof value === "object" && !(value instanceof Exact);

function flow(value: unknown): string {
  if (!isBranch(value)) return scalar(value);
  if (Array.isArray(value)) return `[${value.map(flow).join(", ")}]`;
  return `{${Object.entries(value)
    .map(([name, one]) => `${text(name)}: ${flow(one)}`)
    .join(", ")}}`;
}

function depth(value: unknown): number {
  return isBranch(value) ? 1 + Math.max(0, ...Object.values(value).map(depth)) : 0;
}

function block(value: object, indent: string): string {
  const more = `${indent}  `;
  if (Array.isArray(value)) {
    return value.map((one) => `${indent}- ${inside(one, more, indent.length + 2).trimStart()}`).join("\n");
  }
  return Object.entries(value)
    .map(([name, one]) => {
      const key = `${indent}${text(name)}:`;
      return isShort(one, key.length) ? `${key} ${flow(one)}` : `${key}\n${block(one as object, more)}`;
    })
    .join("\n");
}

function isShort(value: unknown, used: number): boolean {
  if (!isBranch(value)) return true;
  if (Object.keys(value).length === 0) return true;
  return depth(value) <= 2 && used + flow(value).length < LONGEST && !Object.values(value).some(isLong);
}

const isLong = (value: unknown): boolean => typeof value === "string" && value.length > 60;

function inside(value: unknown, indent: string, used: number): string {
  const named = isBranch(value) && !Array.isArray(value) && "id" in value;
  return isShort(value, used) && !named ? flow(value) : block(value as object, indent);
}

export function printYaml(value: unknown): string {
  return isBranch(value) && Object.keys(value).length ? `${block(value, "")}\n` : `${flow(value)}\n`;
}

const FIRST = ["name", "description", "inputs", "nodes", "edges", "outputs"];
const FIRST_OF_NODE = ["id", "type", "config"];

function sorted(value: object, first: readonly string[]): Record<string, unknown> {
  const given = value as Record<string, unknown>;
  const names = [
    ...first.filter((name) => name in given),
    ...Object.keys(given).filter((name) => !first.includes(name)),
  ];
  return Object.fromEntries(names.map((name) => [name, given[name]]));
}

/** A definition in the order in which people read one: what it is called, what it takes, its nodes. */
export function printDefinition(definition: unknown): string {
  if (!isBranch(definition) || Array.isArray(definition)) return printYaml(definition);
  const found = sorted(definition, FIRST);
  if (Array.isArray(found.nodes))
    found.nodes = found.nodes.map((node: unknown) => (isBranch(node) ? sorted(node, FIRST_OF_NODE) : node));
  return printYaml(found);
}
