// Who is logged in, and what they may do: the server decides what is done, this decides what is offered.
import { signal } from "@preact/signals";
import { call, type Schemas } from "../api/call.ts";
import { words } from "../words/en.ts";

export const me = signal<Schemas["Me"] | undefined>(undefined);
let reading: Promise<void> | undefined;

/** Read once; who logs in later loads the page anew or reads again. */
export function readMe(again = false): Promise<void> {
  if (again) reading = undefined;
  reading ??= call("GET /api/v1/me").then(
    (found) => {
      me.value = found;
    },
    () => {
      reading = undefined; // the screen itself says that nobody is logged in
    },
  );
  return reading;
}

/** Why this may not be done; undefined if it may, or if it is not known yet. */
export function lacks(...permissions: readonly string[]): string | undefined {
  const known = me.value;
  if (!known) return undefined;
  const missing = permissions.find((one) => !known.permissions.includes(one));
  return missing === undefined ? undefined : words.lacks(missing);
}
