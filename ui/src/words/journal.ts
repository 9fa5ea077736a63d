// What an event says in a line: the texts of the journal's sentences.
import { many, number } from "./en.ts";

const list = new Intl.ListFormat("en", { type: "conjunction" });
const SHOWN = 6;

/** The first names, and how many more there are. */
function names(found: readonly string[]): string {
  if (found.length <= SHOWN) return list.format(found);
  return `${found.slice(0, SHOWN).join(", ")} and ${many(found.length - SHOWN, "other", "others")}`;
}

export const said = {
  attempt: (attempt: number) => `attempt ${number(attempt)}`,
  visit: (visit: number) => `visit ${number(visit)}`,
  item: (item: number) => `item ${number(item)}`,
  iteration: (iteration: number) => `iteration ${number(iteration)}`,
  generation: (generation: number) => `generation ${number(generation)}`,
  nodes: (found: readonly string[]) => names(found),
  onward: (found: readonly string[]) => `goes on to ${names(found)}`,
  worker: (worker: string) => `on ${worker}`,
  took: (duration: string) => `took ${duration}`,
  again: (duration: string) => `again in ${duration}`,
  asks: (people: readonly string[]) => `asks ${names(people)}`,
  by: (who: string) => `by ${who}`,
  to: (who: string) => `to ${who}`,
  because: (reason: string) => reason.replaceAll("_", " "),
  error: (code: string, message: string) => (message ? `${code}: ${message}` : code),
  limit: (limit: string, maximum: string) => `${limit.replaceAll("_", " ")}, at most ${maximum}`,
  signal: (name: string) => `signal ${name}`,
  waits: {
    approval: "for a person",
    signal: "for a signal",
    event: "for an event",
    timer: "for a time",
    delay: "for a time",
    child: "for a child run",
    items: "for its items",
    asks: "for what its handler asked",
  } as Readonly<Record<string, string>>,
} as const;
