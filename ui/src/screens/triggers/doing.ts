// What is asked of a trigger, in the words of the command line, of HTTP and of the client.
import { write } from "../../api/exact.ts";
import type { Doing } from "../../kit/commands.ts";
import type { Verb } from "./spec.ts";

type Body = Readonly<Record<string, unknown>>;

const inputsOf = (inputs: unknown): string[] =>
  Object.entries((inputs ?? {}) as Record<string, unknown>).flatMap(([name, value]) => [
    "-i",
    `${name}=${write(value)}`,
  ]);

const flag = (name: string, on: unknown): string[] => (on === true ? [name] : []);
const option = (name: string, value: unknown): string[] =>
  value === undefined || value === "" ? [] : [name, String(value)];

/** `body` is what is sent, without what was not given. */
export function doingOf(verb: Verb, name: string, body: Body, item?: number): Doing {
  const place = `/api/v1/triggers/${encodeURIComponent(name)}`;
  const path = item === undefined ? `${place}/${verb}` : `${place}/items/${item}/${verb}`;
  const about = { method: "POST", path, body } as const;
  const command = ["triggers", verb, name];
  switch (verb) {
    case "fire":
      return {
        ...about,
        command: [...command, ...inputsOf(body.inputs), ...option("--overlap", body.overlap)],
        python: ["triggers.fire", body.inputs === undefined ? [name] : [name, body.inputs], { overlap: body.overlap }],
      };
    case "backfill": {
      const { since, until, open, again } = body;
      const more = [...option("--open", open), ...flag("--again", again)];
      return {
        ...about,
        command: [...command, "--since", String(since), "--until", String(until), ...more],
        python: ["triggers.backfill", [name, since, until], { again, open_: open }],
      };
    }
    case "rewind":
      return {
        ...about,
        command: [
          ...command,
          body.cursor === null ? "start" : String(body.cursor),
          ...option("--reason", body.reason),
          ...flag("--again", body.again),
        ],
        python: ["triggers.rewind", [name, body.cursor, body.reason], { again: body.again }],
      };
    case "delete":
      return { method: "DELETE", path: place, command, python: ["triggers.delete", [name], {}] };
    case "requeue":
    case "discard":
      return {
        ...about,
        command: [...command, String(item), ...inputsOf(body.inputs)],
        python: [`triggers.${verb}`, [name, item], { inputs: body.inputs }],
      };
    default:
      return {
        ...about,
        command: [...command, ...option("--reason", body.reason)],
        python: [`triggers.${verb}`, [name], { reason: body.reason }],
      };
  }
}
