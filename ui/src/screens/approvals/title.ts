// What an approval is called, and what it shows in a line.
import { cut } from "../../kit/text.ts";

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  value !== null && typeof value === "object" && !Array.isArray(value);

export function titleIn(shown: unknown): string | undefined {
  const title = isObject(shown) ? shown.title : undefined;
  return typeof title === "string" && title ? title : undefined;
}

/** All that is shown but the title, which stands above it. */
export function besideTitle(shown: unknown): unknown {
  if (!isObject(shown) || titleIn(shown) === undefined) return shown;
  return Object.fromEntries(Object.entries(shown).filter(([name]) => name !== "title"));
}

/** What is shown, so that two of the same workflow are told apart in a list. */
export function shownLine(shown: unknown): string {
  const rest = besideTitle(shown);
  const own = isObject(rest) && "show" in rest ? rest.show : rest;
  const leaves: string[] = [];
  const walk = (value: unknown, name: string, depth: number): void => {
    if (leaves.length >= 6) return;
    if (isObject(value) || Array.isArray(value)) {
      if (depth < 3)
        for (const [key, one] of Object.entries(value)) walk(one, Array.isArray(value) ? name : key, depth + 1);
    } else if (value !== null && value !== undefined && value !== "")
      leaves.push(name ? `${name}: ${value}` : `${value}`);
  };
  walk(own, "", 0);
  return cut(leaves.join(" · "), 160);
}
