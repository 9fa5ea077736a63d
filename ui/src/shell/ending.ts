// That the session ends soon: told a minute before, so that nobody loses what they were about to do.
import { signal } from "@preact/signals";
import { call, now } from "../api/call.ts";

const BEFORE_SECONDS = 60;
/** A timer cannot be set for longer than 24 days; it is looked at again then. */
const LONGEST_MS = 2 ** 31 - 1;

/** When the session ends, where that is within a minute. */
export const endsAt = signal<number | undefined>(undefined);

/** Look when the session ends, and again a minute before: who works on has moved its end. */
export async function watchEnd(): Promise<void> {
  const found = await call("GET /api/v1/sessions", { query: { limit: 100 } }).catch(() => undefined);
  const ends = found?.items.find((one) => one.current)?.expires_at;
  if (ends === undefined) return; // a server that lets everybody in has none
  const left = ends - BEFORE_SECONDS - now();
  endsAt.value = left <= 0 ? ends : undefined;
  if (left > 0) setTimeout(() => void watchEnd(), Math.min(LONGEST_MS, left * 1000 + 500));
}
