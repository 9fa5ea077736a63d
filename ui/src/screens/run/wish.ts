// What the reader wants to do with the run on the screen: the sheet that is open.
import { signal } from "@preact/signals";

export type ActionName = "pause" | "resume" | "cancel" | "force" | "retry" | "rerun" | "rollback" | "signal";

export interface Wish {
  readonly runId: string;
  readonly action: ActionName;
  /** The node to rerun from, or the signal to send. */
  readonly about?: string | undefined;
}

export const wish = signal<Wish | undefined>(undefined);
