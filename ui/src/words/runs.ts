// The texts of the list of runs: its filter, its bars, and what is done with many of them.
import { many, number } from "./en.ts";

export const runs = {
  filter: "Filter",
  hint: "state:failed workflow:order tag:team=blue since:24h",
  badKey: (key: string, keys: readonly string[]) => `There is no key ${key}; there are ${keys.join(", ")}.`,
  badTag: (text: string) => `A tag is written name=value, and ${text} is not.`,
  remove: (text: string) => `Remove ${text}`,
  when: { started: "Started", ended: "Ended" },
  whenLabel: "Which time",
  sort: "Order",
  sorts: { "": "Newest first", oldest: "Oldest first" },
  bars: {
    label: "When these runs were made",
    labelEnd: "When these runs ended",
    described: (total: number, capped: boolean, from: string, to: string) =>
      `${capped ? `More than ${number(total)}` : many(total, "run", "runs")} from ${from} to ${to}.`,
    hint: "Drag over the bars to look closer.",
    back: "Whole time",
  },
  pick: (id: string) => `Select run ${id}`,
  pickAll: "Select all shown",
  bulk: {
    label: "Change many runs",
    none: "Select runs to change many at once",
    chosen: (count: number) => `${many(count, "run", "runs")} selected`,
    all: (count: number, capped: boolean) =>
      capped ? `All ${number(count)}+ that match selected` : `All ${number(count)} that match selected`,
    takeAll: "Select all that match",
    clear: "Clear selection",
    actions: { cancel: "Cancel", pause: "Pause", resume: "Resume", retry: "Retry", rollback: "Roll back" },
    compare: "Compare",
    needSome: "Select at least one run.",
    needTwo: "Select exactly two runs.",
    needCount: "More than 10,000 runs match: narrow the filter first.",
    waiting: "Runs that wait cannot be counted at once: select them one by one, or filter by another state.",
    counting: "Counting",
    titles: {
      cancel: (count: number) => `Cancel ${many(count, "run", "runs")}`,
      pause: (count: number) => `Pause ${many(count, "run", "runs")}`,
      resume: (count: number) => `Resume ${many(count, "run", "runs")}`,
      retry: (count: number) => `Retry ${many(count, "run", "runs")}`,
      rollback: (count: number) => `Roll back ${many(count, "run", "runs")}`,
    },
    does: {
      cancel: "Each run stops: what runs is told to, what has completed keeps its results, and no further node begins.",
      pause: "Each run begins no further node until it is resumed; what runs may finish.",
      resume: "Each paused run goes on where it was held.",
      retry: "Each failed run goes on: what completed is kept, what failed runs again.",
      rollback: "The compensators of each run undo what it did, in reverse order.",
    },
    text: "It is done one by one. What a run refuses is told, and the others go on.",
    first: "The first of them",
    more: (count: number) => `and ${number(count)} more`,
    reason: "Reason",
    reasonHint: "It stands in the journal of each run.",
    noneMatch: "No run matches any more.",
    changed: (was: number, is: number) =>
      `There were ${number(was)}, and now there are ${number(is)}. Nothing was done; look at the new count.`,
    done: (count: number) => `${number(count)} done.`,
    refused: (count: number) => `${many(count, "run refuses", "runs refuse")}:`,
  },
};
