// The texts of a file among values.
import { many, number } from "./en.ts";

/** KB and MB are 10³ and 10⁶ bytes. */
export function bytes(count: number): string {
  if (count < 1000) return many(count, "byte", "bytes");
  for (const [unit, size] of [
    ["GB", 1e9],
    ["MB", 1e6],
    ["KB", 1e3],
  ] as const)
    if (count >= size) return `${number(Math.round((count / size) * 10) / 10)} ${unit}`;
  return "";
}

export const assets = {
  bytes,
  label: (name: string) => `File ${name}`,
  nameless: "file without a name",
  look: "Preview",
  close: "Close",
  download: "Download",
  keep: "Keep",
} as const;
