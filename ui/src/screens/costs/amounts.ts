// Amounts that a person typed: dollars may have a part, what is counted has none. And what is asked with them.
import type { Doing } from "../../kit/commands.ts";
import { costs } from "../../words/costs.ts";

export const KINDS = ["usd", "tokens", "calls"] as const;
export type Kind = (typeof KINDS)[number];
export type Amounts = Readonly<Partial<Record<Kind, string>>>;

interface Read {
  readonly found: Readonly<Partial<Record<Kind, number>>>;
  readonly problem?: string;
}

/** Those that were typed; what is empty is not among them. */
export function readAmounts(typed: Amounts): Read {
  const found: Partial<Record<Kind, number>> = {};
  for (const kind of KINDS) {
    const text = (typed[kind] ?? "").trim();
    if (!text) continue;
    if (!(kind === "usd" ? /^\d{1,7}(\.\d{1,6})?$/ : /^\d{1,12}$/).test(text))
      return { found: {}, problem: `${costs.budgets.kinds[kind]}: ${costs.budgets.badNumber}` };
    found[kind] = Number(text);
  }
  return { found };
}

export function budgetDoing(scope: string, body: Readonly<Record<string, number | string>>): Doing {
  return {
    command: ["budgets", "set", scope, ...Object.entries(body).flatMap(([name, given]) => [`--${name}`, `${given}`])],
    method: "PUT",
    path: `/api/v1/budgets/${encodeURIComponent(scope)}`,
    body,
    python: ["budgets.set", [scope], body],
  };
}

const DAY = 86_400;

/** The first of so many days, in UTC, as the server writes days. */
export const firstDay = (days: number, at: number): string =>
  new Date((at - (days - 1) * DAY) * 1000).toISOString().slice(0, 10);
