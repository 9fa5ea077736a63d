// What a node can name in its templates and conditions: the inputs of the workflow, and the nodes that are done before it.
import { type Definition, edgesOf, nodesOf } from "./model.ts";

interface Kind {
  readonly name: string;
  readonly output_schema?: unknown;
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  value !== null && typeof value === "object" && !Array.isArray(value);

const DEEPEST = 3;
const MOST = 200;

function fieldsOf(schema: unknown, depth = 0): string[] {
  if (!isObject(schema) || !isObject(schema.properties) || depth >= DEEPEST) return [];
  return Object.entries(schema.properties).flatMap(([name, one]) =>
    /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? [name, ...fieldsOf(one, depth + 1).map((below) => `${name}.${below}`)] : [],
  );
}

/** The nodes from which some path leads to it, the nearest first. */
function before(definition: Definition, id: string): string[] {
  const found = new Set<string>();
  let next = [id];
  while (next.length) {
    const known = new Set(next);
    const earlier = edgesOf(definition).flatMap((edge) => (known.has(edge.to) ? [edge.from] : []));
    const listed = nodesOf(definition).flatMap((node) =>
      known.has(node.id) && Array.isArray(node.dependencies) ? node.dependencies.map(String) : [],
    );
    next = [...new Set([...earlier, ...listed])].filter((one) => one !== id && !found.has(one));
    for (const one of next) found.add(one);
  }
  return [...found];
}

export function namesAt(definition: Definition, id: string, kinds: readonly Kind[]): string[] {
  const inputs = fieldsOf(definition.inputs).map((field) => `inputs.${field}`);
  const nodes = new Map(nodesOf(definition).map((node) => [node.id, node]));
  const given = before(definition, id).flatMap((name) => {
    const node = nodes.get(name);
    if (!node) return [];
    // What a transform gives stands in its config; of the others the type says it.
    const config = isObject(node.config) ? node.config : {};
    const own = isObject(config.value) ? Object.keys(config.value).map((key) => `${name}.${key}`) : [];
    const typed = fieldsOf(kinds.find((kind) => kind.name === node.type)?.output_schema).map(
      (field) => `${name}.${field}`,
    );
    return [name, ...own, ...typed];
  });
  const loop = nodes.get(id)?.loop ? ["loop.iteration"] : [];
  return [...new Set([...loop, ...given, ...inputs])].slice(0, MOST);
}
