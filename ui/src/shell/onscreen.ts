// What the search finds, and what the screen that is shown lets it find besides.
import { signal } from "@preact/signals";

export interface Finding {
  readonly kind: "run" | "workflow" | "approval" | "node" | "tag" | "screen" | "action";
  readonly label: string;
  readonly more?: string;
  /** A place to go to, or something to do. */
  readonly to?: string;
  readonly act?: () => void;
}

/** What the screen that is shown offers besides: the nodes of a run, for one. */
export const onScreen = signal<readonly Finding[]>([]);
