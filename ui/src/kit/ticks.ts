// A signal that changes once a second while the page is seen: durations and "3 min ago" read it, and nothing else draws.
import { signal } from "@preact/signals";

export const ticks = signal(1);

export function startTicks(): void {
  setInterval(() => {
    if (!document.hidden) ticks.value += 1;
  }, 1000);
}
