// Sending an event, in the words of the command line, of HTTP and of the client.
import { write } from "../../api/exact.ts";
import type { Doing } from "../../kit/commands.ts";

export interface AnEvent {
  readonly name: string;
  readonly key: string;
  readonly payload: unknown;
  readonly id: string;
}

export function eventDoing({ name, key, payload, id }: AnEvent): Doing {
  const has = payload !== null && payload !== undefined;
  return {
    command: [
      ...["events", "send", name],
      ...(has ? [write(payload)] : []),
      ...(key ? ["--key", key] : []),
      ...(id ? ["--id", id] : []),
    ],
    method: "POST",
    path: "/api/v1/events",
    body: { name, payload: has ? payload : undefined, key: key || undefined, id: id || undefined },
    python: ["events.send", has ? [name, payload] : [name], { id: id || undefined, key: key || undefined }],
  };
}
