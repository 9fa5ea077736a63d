// What the form does to a definition: each change gives a new definition, from which the text is made anew.
import { defaultsOf, type Schema } from "../../kit/schema.ts";

export type Node = Readonly<Record<string, unknown>> & { readonly id: string };
export type Edge = Readonly<Record<string, unknown>> & { readonly from: string; readonly to: string };
export type Definition = Readonly<Record<string, unknown>>;

export const nodesOf = (definition: Definition): readonly Node[] => (definition.nodes ?? []) as readonly Node[];
export const edgesOf = (definition: Definition): readonly Edge[] => (definition.edges ?? []) as readonly Edge[];

const isObject = (value: unknown): value is Record<string, unknown> =>
  value !== null && typeof value === "object" && !Array.isArray(value);

/** A name that no node has. */
export function freeId(definition: Definition, type: string): string {
  const taken = new Set(nodesOf(definition).map((node) => node.id));
  const base = type.replaceAll(/[^A-Za-z0-9_-]/g, "-") || "node";
  for (let count = 1; ; count++) {
    const id = count === 1 ? base : `${base}-${count}`;
    if (!taken.has(id) && !RESERVED.has(id)) return id;
  }
}

const RESERVED = new Set(["inputs", "run", "loop", "item", "secrets", "ctx", "output", "current"]);

export interface Kind {
  readonly name: string;
  readonly config_schema?: unknown;
  readonly example?: unknown;
}

/** Of the types whose schema does not say that one of several keys is needed. */
const SMALLEST: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  human: { approvers: ["approver"] },
  map: { over: [], node: { type: "transform", config: { value: "{{ item }}" } } },
  task: { function: "module:function" },
  transform: { value: null },
  wait: { seconds: 1 },
};

/** The smallest config that is valid by itself: what the schema demands, from the example of the type where that has it. */
export function smallestConfig(kind: Kind): Record<string, unknown> {
  const known = SMALLEST[kind.name];
  if (known) return { ...known };
  const schema = (isObject(kind.config_schema) ? kind.config_schema : {}) as Schema;
  const example = isObject(kind.example) && isObject(kind.example.config) ? kind.example.config : {};
  const properties = isObject(schema.properties) ? schema.properties : {};
  const found: Record<string, unknown> = {};
  for (const name of Array.isArray(schema.required) ? (schema.required as string[]) : []) {
    const property = isObject(properties[name]) ? (properties[name] as Schema) : {};
    found[name] = name in example ? example[name] : (defaultsOf(schema, property) ?? emptyOf(property));
  }
  return found;
}

function emptyOf(schema: Schema): unknown {
  const kinds: Readonly<Record<string, unknown>> = {
    string: "",
    number: 0,
    integer: 0,
    boolean: false,
    array: [],
    object: {},
  };
  return Array.isArray(schema.enum) ? schema.enum[0] : kinds[String(schema.type)];
}

export function addNode(definition: Definition, kind: Kind, after: string): { definition: Definition; id: string } {
  const id = freeId(definition, kind.name);
  const node = { id, type: kind.name, config: smallestConfig(kind) };
  const edges = after ? [...edgesOf(definition), { from: after, to: id }] : edgesOf(definition);
  return { definition: { ...definition, nodes: [...nodesOf(definition), node], edges }, id };
}

export function replaceNode(definition: Definition, id: string, node: Node): Definition {
  const nodes = nodesOf(definition).map((one) => (one.id === id ? node : one));
  const name = (one: string) => (one === id ? node.id : one);
  const edges = edgesOf(definition).map((edge) => ({ ...edge, from: name(edge.from), to: name(edge.to) }));
  return { ...definition, nodes, edges };
}

export function removeNode(definition: Definition, id: string): Definition {
  return {
    ...definition,
    nodes: nodesOf(definition).filter((node) => node.id !== id),
    edges: edgesOf(definition).filter((edge) => edge.from !== id && edge.to !== id),
  };
}

/** Let a node run after another, or no longer. */
export function connect(definition: Definition, from: string, to: string, on: boolean): Definition {
  const others = edgesOf(definition).filter((edge) => edge.from !== from || edge.to !== to);
  return { ...definition, edges: on ? [...others, { from, to }] : others };
}
