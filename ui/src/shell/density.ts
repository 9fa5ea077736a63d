// How close rows stand, in this browser.
import { signal } from "@preact/signals";

export type Density = "comfortable" | "compact";

function readKept(): Density {
  try {
    return localStorage.getItem("density") === "compact" ? "compact" : "comfortable";
  } catch {
    return "comfortable";
  }
}

export const density = signal<Density>(readKept());
if (typeof document !== "undefined") document.documentElement.dataset.density = density.value;

export function keepDensity(value: Density): void {
  density.value = value;
  document.documentElement.dataset.density = value;
  try {
    localStorage.setItem("density", value);
  } catch {
    // it is kept until the page is closed
  }
}
