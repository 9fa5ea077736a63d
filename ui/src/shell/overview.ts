// How everything stands, as the server says: the first screen shows all of it, the rail the counts.
import { signal } from "@preact/signals";
import { call, type Schemas } from "../api/call.ts";

export type Overview = Schemas["Overview"];
export type Span = "1h" | "24h" | "7d";

/** What was read last, whichever span it is of: what waits does not depend on that. */
export const overview = signal<Overview | undefined>(undefined);

export async function readOverview(span: Span, signal?: AbortSignal): Promise<Overview> {
  const found = await call("GET /api/v1/overview", { query: { span }, signal });
  overview.value = found;
  return found;
}
