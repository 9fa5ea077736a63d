// Places in a value: how they are written as a JSON pointer and as a template, and whether a text is found below one.
import { print } from "../api/exact.ts";

export type Path = readonly (string | number)[];

export const pointerOf = (path: Path): string =>
  path.map((key) => `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");

/** `{{ charge.lines[0].total }}`; a key that is no name is written in brackets. */
export function templateOf(name: string, path: Path): string {
  const keys = path.map((key) => {
    if (typeof key === "number") return `[${key}]`;
    return /^[A-Za-z_][A-Za-z0-9_]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
  });
  return `{{ ${name}${keys.join("")} }}`;
}

/** Whether a key or anything in its value holds the text, which is in small letters. */
export const holds = (key: string | number, value: unknown, wanted: string): boolean =>
  (typeof key === "string" && key.toLowerCase().includes(wanted)) || print(value).toLowerCase().includes(wanted);
