// Keeping a file, in the words of the command line, of HTTP and of the client.
import type { Doing } from "../../kit/commands.ts";

export interface Kept {
  readonly run_id: string;
  readonly node: string;
  readonly name: string;
  readonly pointer: string;
  readonly visit?: number | undefined;
}

export function keepDoing(body: Kept): Doing {
  const { run_id, node, name, pointer, visit } = body;
  const more = [...(pointer ? ["--pointer", pointer] : []), ...(visit === undefined ? [] : ["--visit", `${visit}`])];
  return {
    command: ["assets", "promote", run_id, node, "--as", name, ...more],
    method: "POST",
    path: "/api/v1/assets",
    body,
    python: ["assets.promote", [run_id, node], { name, pointer: pointer || undefined, visit }],
  };
}
