// The texts of what can be done with a run, and of the sheets that ask before anything is done.
import { many, number } from "./en.ts";

const list = new Intl.ListFormat("en", { type: "conjunction" });
const SHOWN = 8;

/** The first of the names, and how many more there are. */
function names(found: readonly string[], total: number): string {
  if (total <= SHOWN) return list.format(found);
  return `${found.slice(0, SHOWN).join(", ")} and ${many(total - SHOWN, "other", "others")}`;
}

export const words = {
  sheet: {
    keep: "Keep the run running",
    busy: "Asking the server",
    silent: "The server does not answer; nothing can be asked of it now.",
    reason: "Reason",
    reasonHint: "It is written down with your name.",
  },
  copyAs: {
    title: "Copy as command, curl or Python",
    command: "Command",
    curl: "curl",
    python: "Python",
    copy: (name: string) => `Copy ${name}`,
    key: "Your key is read from PERDURE_API_KEY, and is not part of what is copied.",
  },
  diff: {
    label: "Changes",
    none: "Nothing is changed.",
    place: "Place",
    before: "Before",
    after: "After",
  },
  menu: {
    title: "Actions",
    label: "What can be done with this run",
    past: "Only the present of a run can be changed.",
    patch: "Patch its definition",
  },
  rerunHere: "Rerun from here",
  /** The verb on the button of each action. */
  verbs: {
    pause: "Pause",
    resume: "Resume",
    cancel: "Cancel",
    force: "Cancel by force",
    retry: "Retry",
    rerun: "Rerun",
    rollback: "Roll back",
    signal: "Signal",
  },
  titles: {
    pause: "Pause this run",
    resume: "Resume this run",
    cancel: "Cancel this run",
    force: "Cancel this run by force",
    retry: "Retry this run",
    rerun: "Rerun",
    rollback: "Roll back this run",
    signal: "Signal this run",
  },
  does: {
    pause: "No other node begins. What is being executed may finish.",
    resume: "What was held goes on.",
    cancel:
      "No other node begins, and what is being executed is told to stop. After 30 s the run no longer waits for it.",
    force: "The run ends at once. It does not wait for what is being executed, which may still take effect outside.",
    retry: "A new generation begins: what completed keeps its results, what failed runs again.",
    rerun: "A new run is made out of this one. This one stays as it is.",
    rollback: "What this run did is undone by its compensators, the last first.",
    signal: "Nodes that wait for this signal go on with its payload.",
  },
  next: {
    title: "What happens next",
    again: (found: readonly string[], total: number) => `runs: ${names(found, total)}`,
    againRetry: (found: readonly string[], total: number) => `again: ${names(found, total)}`,
    kept: (total: number) => `${many(total, "node keeps its result", "nodes keep their results")}`,
    undo: "is undone, in this order:",
    undoNone: "nothing is undone: no node that completed has a compensator",
    stops: (found: readonly string[], total: number) => `does not go on: ${names(found, total)}`,
    held: (found: readonly string[], total: number) => `held back: ${names(found, total)}`,
    notUndone: (found: readonly string[], total: number) =>
      `stays undone and becomes a dead letter: ${names(found, total)}`,
    state: (state: string) => `the run is then ${state}`,
    more: (count: number) => `and ${many(count, "other", "others")}`,
    nothing: "nothing is being executed now",
  },
  rerun: {
    from: "From",
    start: "the start, with these inputs",
    node: (id: string) => `node ${id}`,
    inputs: "Inputs",
    inputsHint: "A JSON object. Inputs that you leave out keep the value they had.",
    given: (id: string) => `What ${id} is given`,
    givenHint: "The outputs of the nodes before it, by their ids.",
    changed: "What you changed",
    object: "This must be a JSON object.",
    badJson: (text: string) => `This is not JSON: ${text}`,
    edit: "Change what it is given",
    asIs: "as it was",
  },
  signal: {
    name: "Name",
    nameHint: (waits: readonly string[]) =>
      waits.length
        ? `The run waits for ${list.format(waits)}.`
        : "No node waits for a signal now; it is kept until one does.",
    payload: "Payload, JSON",
    id: "Id of the signal",
    idHint: "Optional. The same id sent twice counts once.",
    needsName: "A signal needs a name.",
  },
  tell: {
    verb: "Tell",
    title: (node: string) => `Tell ${node}`,
    does: "The agent lets the calls under way end, reads this before its next turn, and goes on. It counts as what a user says.",
    text: "Message",
    needs: "Write what it is told.",
    done: "Sent. The agent reads it before its next turn.",
  },
  followed: {
    title: "What happened",
    waiting: "Accepted. Following the journal",
    accepted: "Accepted.",
    acceptedWaits: (why: string) => `Accepted; waits: ${why}`,
    newRun: "The new run:",
    retried: (generation: number) => `retried, generation ${number(generation)}`,
    event: (type: string) => type,
    node: (node: string, what: string) => `${node} ${what}`,
  },
  /** What an event says of its node, in one word or two. */
  happened: {
    "node.scheduled": "queued",
    "node.started": "running",
    "node.completed": "completed",
    "node.failed": "failed",
    "node.retrying": "retrying",
    "node.parked": "parked",
    "node.held": "held",
    "node.waiting": "waits",
    "node.suspended": "waits",
    "node.skipped": "skipped",
    "node.cancelled": "cancelled",
    "node.compensating": "is being undone",
    "node.compensated": "undone",
    "run.paused": "paused",
    "run.resumed": "resumed",
    "run.cancelling": "cancelling",
    "run.cancelled": "cancelled",
    "run.retried": "retried",
    "run.compensating": "compensating",
    "run.rolled_back": "rolled back",
    "run.signalled": "signal received",
    "run.failed": "failed",
    "run.completed": "completed",
  } as Readonly<Record<string, string>>,
  why: {
    label: "Why it stands still",
    look: "Look at it",
    approval: (node: string, asked: readonly string[]) =>
      asked.length
        ? `${node} waits for a person: ${list.format(asked)} ${asked.length > 1 || asked[0] === "you" ? "are" : "is"} asked`
        : `${node} waits for a person: anyone may decide`,
    mayDecide: "; you may decide",
    decide: "Decide",
    parked: (node: string, code: string) => `${node} is parked: ${code}`,
    repair: "Requeue or discard",
    noWorker: (queue: string) => `no worker listens to queue ${queue}`,
    startWorker: "Copy the command that starts one",
    paused: (by: string, reason: string) => `paused${by ? ` by ${by}` : ""}${reason ? `: ${reason}` : ""}`,
    usedUp: "the budget of this run is used up; it goes on with a larger one",
    noRoom: (scope: string) => `the budget of ${scope} has no room; the run goes on by itself when it has`,
    budgets: "Budgets",
    retry: (node: string) => `retry of ${node}`,
    signal: (name: string) => `waits for signal ${name}`,
    event: (name: string, key: string) => `waits for event ${name}${key ? ` with the key ${key}` : ""}`,
    sendEvent: "Send it",
    timer: (node: string) => `${node} waits for a time,`,
    child: (node: string, run: string) => `${node} waits for run ${run}`,
    openChild: "Open that run",
    asks: (node: string, asked: readonly string[]) =>
      asked.length ? `${node} waits for ${list.format(asked)}` : `${node} waits for an answer`,
    items: (node: string, open: number) => `${node}: ${many(open, "item is", "items are")} under way`,
    quarantined: (text: string) => `quarantined: ${text}`,
    soon: "soon",
  },
} as const;
