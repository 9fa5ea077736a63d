// One request as a command of the shell, as curl and as Python, for whoever wants to do it again by a program.
import { Exact, write } from "../api/exact.ts";

/** What a screen is about to ask, in the words of the command line, of HTTP and of the client. */
export interface Doing {
  /** `runs cancel` and its arguments, as they are before quoting; not there: the command line cannot do it. */
  readonly command?: readonly string[];
  readonly method: "POST" | "PUT" | "DELETE";
  /** The path below the server's address. */
  readonly path: string;
  readonly body?: unknown;
  /** `runs.cancel`, its arguments, and its named arguments. */
  readonly python: readonly [string, readonly unknown[], Readonly<Record<string, unknown>>];
}

/** For a POSIX shell: as it is where nothing in it means anything to a shell, else between single quotes. */
export function quote(text: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** A value as Python writes it. A map is a dict whose keys are no texts. */
export function toPython(value: unknown): string {
  if (value instanceof Exact) return value.text;
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "string") return pythonText(value);
  if (typeof value !== "object") return String(value);
  if (Array.isArray(value)) return `[${value.map(toPython).join(", ")}]`;
  if (value instanceof Map) return `{${[...value].map((pair) => pair.map(toPython).join(": ")).join(", ")}}`;
  return `{${Object.entries(value)
    .filter(([, one]) => one !== undefined)
    .map(([name, one]) => `${pythonText(name)}: ${toPython(one)}`)
    .join(", ")}}`;
}

// JSON and Python agree on how text is written, but for what lies beyond the first plane: there JSON has two halves.
function pythonText(text: string): string {
  return JSON.stringify(text).replace(/[\u007f-\u{10ffff}]/gu, (one) => {
    const code = one.codePointAt(0) ?? 0;
    return code > 0xffff ? `\\U${code.toString(16).padStart(8, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

export function asCommand(doing: Doing, server: string): string {
  return ["perdure", ...(doing.command ?? []), "--server", server].map(quote).join(" ");
}

/** The key is read from the environment: nothing secret stands in what is copied. */
export function asCurl(doing: Doing, server: string, closed: boolean): string {
  const parts = ["curl", "-sS", "-X", doing.method, quote(server + doing.path)];
  if (closed) parts.push("-H", '"Authorization: Bearer $PERDURE_API_KEY"');
  if (doing.body !== undefined)
    parts.push("-H", quote("Content-Type: application/json"), "-d", quote(write(doing.body)));
  return parts.join(" ");
}

export function asPython(doing: Doing, server: string, closed: boolean): string {
  const [name, positional, named] = doing.python;
  const given = Object.entries(named).filter(([, value]) => value !== undefined);
  const all = [...positional.map(toPython), ...given.map(([key, value]) => `${key}=${toPython(value)}`)].join(", ");
  const key = closed ? ', api_key=os.environ["PERDURE_API_KEY"]' : "";
  const begin = closed ? "import os\n\nimport perdure" : "import perdure";
  return `${begin}\n\nwith perdure.Client(${pythonText(server)}${key}) as client:\n    print(client.${name}(${all}))`;
}
