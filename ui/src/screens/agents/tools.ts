// What can be done with a tool of the registry, and the same in the words of the command line, of HTTP and of the client.
import type { Schemas } from "../../api/call.ts";
import type { Doing } from "../../kit/commands.ts";

export type Verb = "promote" | "retire" | "pin";

type About = Pick<Schemas["RegistryTool"], "kind" | "state" | "version" | "pinned">;

export function verbsOf({ kind, state, version, pinned }: About): readonly Verb[] {
  if (state !== "live") return ["promote"];
  return kind === "workflow" && pinned !== version ? ["pin", "retire"] : ["retire"];
}

export function toolDoing(verb: Verb, name: string, alone: boolean): Doing {
  const isAlone = verb === "promote" && alone;
  return {
    command: ["tools", verb, name, ...(isAlone ? ["--alone"] : [])],
    method: "POST",
    path: `/api/v1/tools/${encodeURIComponent(name)}/${verb}`,
    body: isAlone ? { alone } : {},
    python: [`tools.${verb}`, [name], isAlone ? { alone } : {}],
  };
}
