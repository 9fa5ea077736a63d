// Which runs are meant: in the address, as text that people type, and as the server is asked.
import { readSince } from "../../kit/time.ts";

export interface Filter {
  readonly state: readonly string[];
  readonly workflow: string;
  readonly version: string;
  readonly tag: readonly string[];
  readonly since: string;
  readonly until: string;
  /** The times are those of the end, and the list is in that order. */
  readonly byEnd: boolean;
  readonly error: string;
  readonly by: string;
  readonly id: string;
  readonly children: boolean;
  readonly sort: string;
}

type Query = Readonly<Record<string, string | readonly string[] | undefined>>;

const PLAIN = ["workflow", "version", "since", "until", "error", "by", "id"] as const;
const MANY = ["state", "tag"] as const;
const FLAGS = { "by-end": "byEnd", children: "children" } as const;
export const KEYS = [
  "state",
  "workflow",
  "version",
  "tag",
  "since",
  "until",
  "by-end",
  "error",
  "by",
  "id",
  "children",
];

export function readFilter(query: URLSearchParams): Filter {
  const one = (name: string) => query.get(name) ?? "";
  return {
    state: query.getAll("state"),
    workflow: one("workflow"),
    version: one("version"),
    tag: query.getAll("tag"),
    since: one("since"),
    until: one("until"),
    byEnd: one("by-end") === "1",
    error: one("error"),
    by: one("by"),
    id: one("id"),
    children: one("children") === "1",
    sort: one("sort") === "oldest" ? "oldest" : "",
  };
}

/** The parts of the address that say it; those that are not given are named too, so that they are taken out. */
export function toQuery(filter: Filter): Query {
  return {
    state: filter.state,
    tag: filter.tag,
    ...Object.fromEntries(PLAIN.map((name) => [name, filter[name]])),
    "by-end": filter.byEnd ? "1" : "",
    children: filter.children ? "1" : "",
    sort: filter.sort,
  };
}

export const isEmpty = (filter: Filter): boolean =>
  [...MANY.map((name) => filter[name].length), ...PLAIN.map((name) => filter[name].length)].every((one) => one === 0) &&
  !filter.byEnd &&
  !filter.children;

const written = (value: string): string =>
  /^[^\s"\\]+$/.test(value) ? value : `"${value.replaceAll(/["\\]/g, "\\$&")}"`;

/** `state:failed workflow:order tag:team=blue since:24h` */
export function toText(filter: Filter): string {
  const parts: string[] = [];
  for (const value of filter.state) parts.push(`state:${written(value)}`);
  for (const name of PLAIN) {
    if (name === "since") for (const value of filter.tag) parts.push(`tag:${written(value)}`);
    if (filter[name]) parts.push(`${name}:${written(filter[name])}`);
  }
  for (const [name, field] of Object.entries(FLAGS)) if (filter[field]) parts.push(`${name}:1`);
  return parts.join(" ");
}

export type Wrong = { readonly key: string } | { readonly tag: string };

/** The filter that a text means, or what in it means nothing. A word without a key is the name of a workflow. */
export function fromText(text: string, before: Filter): Filter | Wrong {
  const found: Record<string, string | readonly string[] | boolean> = {
    ...readFilter(new URLSearchParams()),
    sort: before.sort,
  };
  const many: Record<string, string[]> = { state: [], tag: [] };
  for (const part of text.matchAll(/(?:([A-Za-z-]+):)?("(?:[^"\\]|\\.)*"|\S+)/g)) {
    const key = part[1] ?? "workflow";
    const raw = part[2] ?? "";
    const value = raw.startsWith('"') && raw.length > 1 ? raw.slice(1, -1).replaceAll(/\\(.)/g, "$1") : raw;
    if (!KEYS.includes(key)) return { key };
    if (key === "tag" && !/^[^=]+=/.test(value)) return { tag: value };
    if (key in many) many[key]?.push(value);
    else if (key in FLAGS) found[FLAGS[key as keyof typeof FLAGS]] = value !== "0" && value !== "no";
    else found[key] = value;
  }
  return { ...found, ...many } as unknown as Filter;
}

/** The conditions as the server takes them, for lists, counts and changes. */
export function toConditions(filter: Filter, now: number) {
  const since = filter.since ? readSince(filter.since, now) : undefined;
  const until = filter.until ? readSince(filter.until, now) : undefined;
  return {
    state: filter.state.length ? (filter.state as never) : undefined,
    workflow: filter.workflow || undefined,
    version: filter.version === "" ? undefined : (filter.version as never),
    tag: filter.tag.length ? [...filter.tag] : undefined,
    error: filter.error || undefined,
    by: filter.by || undefined,
    id: filter.id || undefined,
    since: filter.byEnd ? undefined : since,
    until: filter.byEnd ? undefined : until,
    ended_since: filter.byEnd ? since : undefined,
    ended_until: filter.byEnd ? until : undefined,
    children: filter.children || undefined,
  };
}
