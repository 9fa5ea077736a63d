// The texts of what runs use: of one run, of all, and of budgets.
import { many, number } from "./en.ts";
import { dollars } from "./money.ts";

export const costs = {
  title: "Costs",
  parts: { usage: "Usage", budgets: "Budgets" },
  dollars,
  tokens: (count: number) => many(count, "token", "tokens"),
  figures: { usd: "Cost", calls: "Calls", input: "Tokens in", output: "Tokens out" },
  more: {
    unpriced: "and more: a price is missing",
    unsettled: (calls: number, usd: number) =>
      `${many(calls, "call has", "calls have")} no known end: ${dollars(usd)} of it may not have been charged.`,
    children: (usd: number) => `${dollars(usd)} of it were used by child runs.`,
    reserved: (usd: number, tokens: number) =>
      `${dollars(usd)} and ${many(tokens, "token is", "tokens are")} set aside for calls under way.`,
  },
  run: {
    none: {
      title: "Nothing was used",
      text: "No node of this run has asked a model, and no function has said what a call of it costs.",
    },
    budget: "Budget",
    of: (used: string, limit: string) => `${used} of ${limit}`,
    noBudget: "This run has no budget of its own.",
    whenUsedUp: {
      pause: "When it is used up, the run pauses.",
      fail: "When it is used up, the run fails.",
    } as Readonly<Record<string, string>>,
    byNode: "By node",
    byModel: "By model",
    noModel: "no model named",
    now: "These are the figures of now, not of the event that is looked at.",
    columns: {
      name: { node: "Node", model: "Model" },
      share: "Share",
      calls: "Calls",
      tokens: "Tokens in, out",
      usd: "Cost",
    },
    both: (input: number, output: number) => `${number(input)}, ${number(output)}`,
    open: (node: string) => `Open node ${node}`,
  },
  guards: {
    title: "What was decided about calls of tools",
    none: "No call fits this filter.",
    filter: "Decision",
    any: "every decision",
    columns: { node: "Node", turn: "Turn", tool: "Tool", verdict: "Decided", outcome: "Then" },
    read: (label: string) => `the agent had read: ${label}`,
    untrusted: (what: string) => `made untrusted by: ${what}`,
    more: "Show more",
    open: (tool: string) => `Open the call of ${tool}`,
  },
  usage: {
    by: "By",
    bys: { workflow: "workflow", model: "model", day: "day" } as const,
    span: "How far back",
    spans: { "1": "today", "7": "7 days", "30": "30 days", "90": "90 days" } as Readonly<Record<string, string>>,
    workflow: "Only workflow",
    days: (since: string, until: string) => (since === until ? `${since}, UTC` : `${since} to ${until}, UTC`),
    columns: { workflow: "Workflow", model: "Model", day: "Day" } as const,
    cached: "From a cache",
    none: {
      title: "Nothing was used in this time",
      text: "What models and functions use is added up here, also of runs that were deleted since.",
    },
    cut: "There are more than 1,000; the total counts them all.",
    total: "Total",
    command: "perdure cost --by model",
  },
  budgets: {
    none: {
      title: "No budget is set",
      text: "A budget limits what the calls of all runs of the tenant, or of one workflow, may cost in a day or a month. A run whose next call has no room pauses, and goes on by itself.",
    },
    tenant: "The whole tenant",
    columns: { scope: "Of", used: "Used", reserved: "Set aside", ends: "Begins anew" },
    share: (percent: number) => `one node at most ${number(percent)}\u00a0%`,
    per: { day: "a day", month: "a month" } as Readonly<Record<string, string>>,
    kinds: { usd: "Dollars", tokens: "Tokens", calls: "Calls" } as const,
    set: "Set a budget",
    change: "Change",
    remove: "Delete",
    titles: { set: "Set a budget", remove: (scope: string) => `Delete the budget of ${scope}?` },
    does: {
      set: "It takes the place of the one that this scope has. Calls that begin a second from now are held to it.",
      remove: "Nothing limits this scope any more. What was used stays counted.",
    },
    verbs: { set: "Save", remove: "Delete" },
    fields: {
      scope: "Of what",
      workflow: "Workflow",
      per: "In",
      usd: "Dollars",
      tokens: "Tokens, in and out",
      calls: "Calls",
      share: "The part that one node of a run may use, in percent",
      shareHint: "10 % of a tenant's budget unless it is said.",
      amountHint: "Empty: not limited.",
    },
    badNumber: "this is not a number",
    needs: "Say at least one limit.",
    needsWorkflow: "Say which workflow.",
  },
  /** A run is given more with its retry or its resume. */
  given: {
    title: "A larger budget",
    hint: "For all that the run uses, with what it has used already. What you leave empty stays as it is.",
    needs: "The budget of this run is used up: give it a larger one.",
  },
} as const;
