// Tell of an approval that waits while the page is hidden: only where the reader asked for it, once a minute.
import { signal } from "@preact/signals";
import { href } from "../router.ts";
import { words } from "../words/en.ts";
import { overview, readOverview } from "./overview.ts";

const PAUSE_MS = 60_000;

const isPossible = (): boolean => typeof Notification !== "undefined";

function readKept(): boolean {
  try {
    return isPossible() && Notification.permission === "granted" && localStorage.getItem("notices") === "on";
  } catch {
    return false;
  }
}

export const notices = signal(readKept());

/** Turn it on or off. The browser asks the reader first; false: it may not. */
export async function keepNotices(on: boolean): Promise<boolean> {
  const allowed = on && isPossible() && (await Notification.requestPermission()) === "granted";
  notices.value = allowed;
  try {
    if (allowed) localStorage.setItem("notices", "on");
    else localStorage.removeItem("notices");
  } catch {
    // it is kept until the page is closed
  }
  return allowed === on;
}

function tell(count: number): void {
  const shown = new Notification(words.notice.title, { body: words.notice.text(count), tag: "approvals" });
  shown.onclick = () => {
    window.focus();
    location.assign(href("/approvals", { mine: "1" }));
  };
}

async function look(): Promise<void> {
  const before = overview.peek()?.approvals?.total ?? 0;
  const found = await readOverview("24h").catch(() => undefined); // the next look comes in a minute
  const count = found?.approvals?.total ?? 0;
  if (document.hidden && count > before) tell(count);
}

/** Look while the page is hidden; a page that is seen shows its counts itself. */
export function watchHidden(): () => void {
  let timer: ReturnType<typeof setInterval> | undefined;
  const change = () => {
    clearInterval(timer);
    if (document.hidden && notices.peek()) timer = setInterval(() => void look(), PAUSE_MS);
  };
  document.addEventListener("visibilitychange", change);
  return () => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", change);
  };
}
