// The texts of what a node was given, of what it lacks, and of values that are looked through part by part.
import { many, number } from "./en.ts";

export const node = {
  input: "Input",
  config: "Config, as the worker got it",
  inputs: "From the nodes before it",
  noInput: "It was given nothing yet.",
  definition: "Definition",
  noDefinition: "The definition of this run is no longer kept.",
  children: "Child run",
  waitsFor: "Still missing",
  arrived: "Came",
  parts: {
    open: "Look through it",
    close: "Close",
    whole: "Whole value",
    download: "Download",
    label: "Part of the value",
    length: (kind: string, count: number) =>
      kind === "string" ? many(count, "character", "characters") : many(count, "entry", "entries"),
    large: (bytes: number) => `It has ${number(bytes)} bytes and is shown part by part.`,
    bytes: (count: number) => `${number(count)} bytes`,
    more: "More",
    kinds: { object: "object", array: "list", string: "text", stored: "stored value" } as Readonly<
      Record<string, string>
    >,
  },
} as const;

/** What a node yields. */
export const stream = {
  title: "Stream",
  port: "Port",
  label: (port: string) => (port ? `Chunks of ${port}` : "Chunks"),
  waits: "nothing yet",
  count: (count: number) => many(count, "chunk", "chunks"),
  states: { connecting: "connecting", live: "flows", waiting: "reconnecting", hidden: "asleep", ended: "ended" },
  ends: { end: "ended", failed: "failed", cancelled: "cancelled" } as Readonly<Record<string, string>>,
  restarted: (edition: number) =>
    `The node began anew (edition ${number(edition)}): what it said before counts no more.`,
  hidden: (count: number) => `${many(count, "earlier chunk is", "earlier chunks are")} not shown.`,
} as const;

/** One item of a map. */
export const mapItem = {
  label: "Item",
  of: (item: number, count: number) => `Item ${number(item)} of ${number(count)}`,
  before: "Item before",
  after: "Item after",
  node: "The whole node",
  all: "All items",
  each: "Look at each",
  notYet: "It has not begun.",
} as const;

/** The visits of a node in a loop. */
export const visits = {
  label: "Visit",
  newest: (state: string, visit: number) => `${number(visit)}, ${state} (newest)`,
  one: (state: string, visit: number) => `${number(visit)}, ${state}`,
  before: "Visit before",
  after: "Visit after",
  look: "Look at the run then",
} as const;
