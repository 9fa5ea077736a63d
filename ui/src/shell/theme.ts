// Light, dark, or as the system has it. A plain cookie lets the server set it before the first paint.
import { signal } from "@preact/signals";
import { base } from "../router.ts";

export type Theme = "auto" | "light" | "dark";

const given = document.documentElement.dataset.theme;
export const theme = signal<Theme>(given === "light" || given === "dark" ? given : "auto");

export function keepTheme(value: Theme): void {
  theme.value = value;
  document.documentElement.dataset.theme = value === "auto" ? "" : value;
  const path = `path=${base || "/"}; SameSite=Strict`;
  // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API is not there on plain http
  document.cookie = value === "auto" ? `theme=; Max-Age=0; ${path}` : `theme=${value}; Max-Age=31536000; ${path}`;
}
