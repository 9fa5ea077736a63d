// JSON that a person typed.
import { parse } from "../../../api/exact.ts";
import { words } from "../../../words/actions.ts";

export type Read = { readonly value: unknown } | { readonly problem: string };

/** The value of a text, undefined for an empty one; or what is wrong with it. */
export function readJson(text: string): Read {
  if (!text.trim()) return { value: undefined };
  try {
    return { value: parse(text) };
  } catch (error) {
    return { problem: words.rerun.badJson(error instanceof Error ? error.message : "") };
  }
}
