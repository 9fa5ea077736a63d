import { change, place } from "../router.ts";

/** Look at the run as it was after an event; undefined: as it is now. Moving on from there is no step in the history. */
export function look(seq: number | undefined): void {
  change({ at: seq === undefined ? undefined : String(seq) }, place.peek().query.has("at"));
}
