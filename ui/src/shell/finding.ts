// What can be found by a text: screens, actions, what is on the screen, and what the server knows.
import { call } from "../api/call.ts";
import { keepZone, zone } from "../kit/time.ts";
import { go, href } from "../router.ts";
import { titleIn } from "../screens/approvals/title.ts";
import { operators } from "../words/operators.ts";
import { type Finding, onScreen } from "./onscreen.ts";
import { keepTheme } from "./theme.ts";

export type { Finding } from "./onscreen.ts";

const KEEP = "recent";
const MOST = 8;

export function readRecent(): Finding[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEEP) ?? "[]");
    if (!Array.isArray(found)) return [];
    return found.filter(isRecent).slice(0, MOST);
  } catch {
    return [];
  }
}

function isRecent(one: unknown): one is Finding {
  const found = one as Partial<Finding> | null;
  return (
    typeof found?.label === "string" &&
    typeof found.to === "string" &&
    /^\/(?![/\\])/.test(found.to) &&
    typeof found.kind === "string" &&
    found.kind in operators.search.kinds
  );
}

function keepRecent(one: Finding): void {
  const rest = readRecent().filter((other) => other.to !== one.to);
  try {
    localStorage.setItem(KEEP, JSON.stringify([one, ...rest].slice(0, MOST)));
  } catch {
    // nothing is remembered then
  }
}

/** Follow what was found, here or in a new tab. */
export function follow(one: Finding, inNewTab = false): void {
  if (one.to === undefined) {
    one.act?.();
    return;
  }
  if (one.kind !== "screen") keepRecent({ kind: one.kind, label: one.label, more: one.more, to: one.to });
  if (inNewTab) open(one.to, "_blank", "noopener");
  else go(one.to);
}

function screens(): Finding[] {
  return operators.search.screens.map(([path, label]) => ({ kind: "screen", label, to: href(path) }));
}

function actions(): Finding[] {
  const text = operators.search.actions;
  return [
    { kind: "action", label: text.dark, act: () => keepTheme("dark") },
    { kind: "action", label: text.light, act: () => keepTheme("light") },
    { kind: "action", label: text.system, act: () => keepTheme("auto") },
    {
      kind: "action",
      label: zone.peek() === "utc" ? text.local : text.utc,
      act: () => keepZone(zone.peek() === "utc" ? "local" : "utc"),
    },
  ];
}

const holds = (one: Finding, text: string) => `${one.label} ${one.more ?? ""}`.toLowerCase().includes(text);

/** What is known here, at once. `>` leaves nothing but actions. */
export function findHere(text: string): Finding[] {
  const asked = text.trim().toLowerCase();
  if (asked.startsWith(">")) {
    const wanted = asked.slice(1).trim();
    return actions().filter((one) => holds(one, wanted));
  }
  if (!asked) return [...readRecent().map((one) => ({ ...one })), ...screens()];
  return [
    ...readRecent().filter((one) => holds(one, asked)),
    ...onScreen.peek().filter((one) => holds(one, asked)),
    ...screens().filter((one) => holds(one, asked)),
    ...tagged(text.trim()),
    ...actions().filter((one) => holds(one, asked)),
  ].slice(0, 24);
}

/** `name=value` is a tag. */
function tagged(text: string): Finding[] {
  if (!/^[^=\s]+=\S/.test(text)) return [];
  return [{ kind: "tag", label: text, to: href("/runs", { tag: text }) }];
}

export async function findThere(text: string, signal: AbortSignal): Promise<Finding[]> {
  const asked = text.trim();
  if (!asked || asked.startsWith(">")) return [];
  const found = await call("GET /api/v1/search", { query: { q: asked.slice(0, 200), limit: 8 }, signal });
  return [
    ...found.runs.map(
      (one): Finding => ({
        kind: "run",
        label: one.run_id,
        more: one.workflow,
        to: href(`/runs/${encodeURIComponent(one.run_id)}`),
      }),
    ),
    ...found.workflows.map(
      (one): Finding => ({
        kind: "workflow",
        label: one.name,
        to: href(`/workflows/${encodeURIComponent(one.name)}`),
      }),
    ),
    ...found.approvals.map(
      (one): Finding => ({
        kind: "approval",
        label: titleIn(one.shown) ?? one.node,
        more: [one.workflow, one.node].filter(Boolean).join(" · "),
        to: href(`/approvals/${encodeURIComponent(one.approval_id)}`),
      }),
    ),
  ];
}

/** Both, without what is in both. */
export function merge(here: readonly Finding[], there: readonly Finding[]): Finding[] {
  const known = new Set(here.map((one) => one.to).filter((to) => to !== undefined));
  return [...here, ...there.filter((one) => one.to === undefined || !known.has(one.to))];
}
