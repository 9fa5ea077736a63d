// An event of the journal as a line: what it says beyond its type and its node. The data itself is one click away.
import { Exact } from "../../api/exact.ts";
import { cut } from "../../kit/text.ts";
import { shownDuration } from "../../kit/time.ts";
import { said } from "../../words/journal.ts";
import type { RunEvent } from "./events.ts";

type Data = Readonly<Record<string, unknown>>;

const MOST = 200;

const textOf = (value: unknown): string =>
  typeof value === "string"
    ? value
    : typeof value === "number"
      ? String(value)
      : value instanceof Exact
        ? value.text
        : "";
const listOf = (value: unknown): string[] => (Array.isArray(value) ? value.map(textOf).filter(Boolean) : []);
const dataOf = (value: unknown): Data => (value !== null && typeof value === "object" ? (value as Data) : {});

/** Who or what it is about, by the names that the events have for it. */
function aboutOf(event: RunEvent, data: Data): (string | false)[] {
  const places = Array.isArray(data.places) ? data.places.map((one: unknown) => textOf((one as unknown[])[0])) : [];
  const { visit, attempt, item } = event;
  return [
    places.length > 0 && said.nodes([...new Set(places)]),
    visit !== undefined && visit > 1 && said.visit(visit),
    attempt !== undefined && attempt > 1 && said.attempt(attempt),
    typeof item === "number" && said.item(item),
    typeof data.iteration === "number" && said.iteration(data.iteration),
    typeof data.generation === "number" && data.generation > 1 && said.generation(data.generation),
  ];
}

function contentOf(event: RunEvent, data: Data): (string | false)[] {
  const error = dataOf(data.error);
  const wait = dataOf(data.wait);
  const taken = listOf(dataOf(data.route).taken);
  const asked = listOf(data.approvers);
  const retryAt = typeof data.retry_at === "number" ? data.retry_at : undefined;
  const began = typeof data.started_at === "number" ? data.started_at : undefined;
  return [
    textOf(data.workflow),
    textOf(error.code) && said.error(textOf(error.code), textOf(error.message).split("\n", 1)[0] ?? ""),
    retryAt !== undefined && said.again(shownDuration(Math.max(0, retryAt - event.at))),
    said.waits[textOf(wait.kind)] ?? false,
    began !== undefined && said.took(shownDuration(Math.max(0, event.at - began))),
    event.type === "run.signalled" && said.signal(textOf(data.name)),
    taken.length > 0 && said.onward(taken),
    asked.length > 0 && said.asks(asked),
    textOf(data.decision),
    textOf(data.child),
    textOf(data.timer),
    textOf(data.state),
    textOf(data.limit) && said.limit(textOf(data.limit), textOf(data.maximum)),
    textOf(data.reason) && said.because(textOf(data.reason)),
    textOf(data.to) && said.to(textOf(data.to)),
    textOf(data.by) && said.by(textOf(data.by)),
    textOf(data.worker) && said.worker(textOf(data.worker)),
  ];
}

export function saidOf(event: RunEvent): string {
  const data = dataOf(event.data);
  const parts = [...aboutOf(event, data), ...contentOf(event, data)].filter((one) => one !== false && one !== "");
  return cut(parts.join(" · "), MOST);
}
