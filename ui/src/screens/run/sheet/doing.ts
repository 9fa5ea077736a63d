// What an action of a run is, in the words of the command line, of HTTP and of the client.
import { write } from "../../../api/exact.ts";
import type { Doing } from "../../../kit/commands.ts";
import type { ActionName } from "../wish.ts";

export interface Given {
  readonly reason: string;
  readonly fromNode: string;
  readonly inputs: Readonly<Record<string, unknown>> | undefined;
  readonly name: string;
  readonly payload: unknown;
  readonly signalId: string;
  /** A larger budget, of a run whose own is used up. */
  readonly budget?: Readonly<Record<string, number>> | undefined;
}

function option(name: string, value: string): string[] {
  return value ? [name, value] : [];
}

const larger = ({ budget }: Given) => (budget ? { budget } : {});

/** The body of the request, without what was not given. */
export function bodyOf(action: ActionName, given: Given): Record<string, unknown> {
  switch (action) {
    case "pause":
      return given.reason ? { reason: given.reason } : {};
    case "retry":
      return { ...(given.reason ? { reason: given.reason } : {}), ...larger(given) };
    case "resume":
      return larger(given);
    case "cancel":
    case "force":
      return { ...(given.reason ? { reason: given.reason } : {}), ...(action === "force" ? { force: true } : {}) };
    case "rerun":
      return {
        ...(given.fromNode ? { from_node: given.fromNode } : {}),
        ...(given.inputs === undefined ? {} : { inputs: given.inputs }),
      };
    case "signal":
      return {
        name: given.name,
        payload: given.payload ?? null,
        ...(given.signalId ? { signal_id: given.signalId } : {}),
      };
    default:
      return {};
  }
}

export function doingOf(runId: string, action: ActionName, given: Given): Doing {
  const verb = action === "force" ? "cancel" : action;
  const path = `/api/v1/runs/${encodeURIComponent(runId)}/${verb}`;
  const body = bodyOf(action, given);
  const about = { method: "POST", path, body } as const;
  const named: Record<string, unknown> = { ...body };
  const command = ["runs", verb, runId];
  switch (action) {
    case "signal": {
      const { name: _name, payload: _payload, ...rest } = named;
      const text = given.payload === undefined || given.payload === null ? [] : [write(given.payload)];
      const all = [...command, given.name, ...text, ...option("--signal-id", given.signalId)];
      return { ...about, command: all, python: ["runs.signal", [runId, given.name, given.payload ?? null], rest] };
    }
    case "rerun": {
      const inputs = Object.entries(given.inputs ?? {}).flatMap(([name, value]) => ["-i", `${name}=${write(value)}`]);
      const all = [...command, ...option("--from", given.fromNode), ...inputs];
      return { ...about, command: all, python: ["runs.rerun", [runId], named] };
    }
    default: {
      const force = action === "force" ? ["--force"] : [];
      const more = Object.entries(given.budget ?? {}).flatMap(([name, amount]) => [`--${name}`, `${amount}`]);
      const all = [...command, ...force, ...more, ...option("--reason", String(body.reason ?? ""))];
      return { ...about, command: all, python: [`runs.${verb}`, [runId], named] };
    }
  }
}
