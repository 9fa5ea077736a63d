// The texts of two runs side by side, and of a run on paper.
import { many, number } from "./en.ts";

const list = new Intl.ListFormat("en", { type: "conjunction" });

export const papers = {
  pair: {
    title: "Two runs compared",
    first: "First",
    second: "Second",
    swap: "Swap",
    path: "Path",
    same: "The two runs do not differ, but for their times.",
    differences: (nodes: number) => `${many(nodes, "node differs", "nodes differ")}`,
    none: "not there",
    omitted: "left out: the answer would be too large",
    way: "Compare with the run it was made from",
  },
  print: {
    way: "Print",
    back: "Back to the run",
    print: "Print",
    markdown: "Copy as Markdown",
    export: "Export",
    at: (seq: number) => `As it was right after event ${number(seq)}.`,
    state: "State",
    nodes: "Nodes",
    approvals: "Approvals",
    errors: "Errors",
    values: "Values",
    journal: "Journal",
    none: "—",
    columns: {
      node: "Node",
      state: "State",
      attempt: "Attempt",
      started: "Started",
      ended: "Ended",
      took: "Took",
    },
    approval: (
      approvers: readonly string[],
      votes: readonly (readonly [string, string])[],
      asked: string,
      decided: string | undefined,
      comments: string,
    ) =>
      [
        `asked ${asked} of ${approvers.length ? list.format(approvers) : "anyone"}`,
        ...votes.map(([who, what]) => `${who}: ${what}`),
        decided === undefined ? "not decided" : `decided ${decided}`,
        ...(comments ? [comments] : []),
      ].join("; "),
    cut: (length: number) => `Cut: it has ${many(length, "character", "characters")}.`,
    more: (count: number) => `and ${many(count, "event", "events")} more`,
    hash: "SHA-256 of the export:",
  },
};
