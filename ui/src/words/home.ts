// The texts of the first screen: what needs a person, and how runs do.
import { many, number } from "./en.ts";

const counted = (count: number, capped: boolean): string => (capped ? `${number(count)}+` : number(count));

export const home = {
  title: "Home",
  needs: "Needs a person now",
  nothing: "Nothing waits for a person",
  nothingText: "No approval is yours to decide, nothing is parked or paused, and every queue has a worker.",
  approvals: (count: number, capped: boolean) =>
    count === 1 && !capped ? "1 approval waits for you" : `${counted(count, capped)} approvals wait for you`,
  expires: "the next expires",
  letters: (count: number, capped: boolean) =>
    count === 1 && !capped ? "1 dead letter is parked" : `${counted(count, capped)} dead letters are parked`,
  letterGroup: (workflow: string, code: string, count: number) => `${workflow}: ${code}, ${number(count)}`,
  triggers: "items of triggers",
  noWorkflow: "a workflow that is gone",
  noCode: "no code",
  queue: (name: string) => `Nobody listens to queue ${name}`,
  queueText: (count: number) => many(count, "task waits", "tasks wait"),
  failed: (count: number, capped: boolean) =>
    count === 1 && !capped ? "1 run failed in 24 hours" : `${counted(count, capped)} runs failed in 24 hours`,
  paused: (count: number, capped: boolean) =>
    count === 1 && !capped ? "1 run is paused" : `${counted(count, capped)} runs are paused`,
  quarantined: (workflow: string) => `A run of ${workflow} is quarantined`,
  quarantinedMore: (count: number) => `${number(count)} runs are quarantined in all`,
  deadline: (workflow: string) => `A run of ${workflow} has a deadline within the hour`,
  deadlineMore: (count: number) => `${number(count)} runs have a deadline within the hour`,
  deadlineAt: "it fails",
  byWorkflow: (workflow: string, count: number) => `${workflow} ${number(count)}`,
  activity: "Activity",
  spans: { "1h": "1 hour", "24h": "24 hours", "7d": "7 days" } as const,
  span: "How far back",
  table: "Table",
  started: "started",
  ended: "ended",
  failedRuns: "failed",
  described: (started: number, ended: number, failed: number) =>
    `${number(started)} started, ${number(ended)} ended, ${number(failed)} of them failed.`,
  sameInTable: "The table has the same.",
  columns: { from: "From", started: "Started", ended: "Ended", failed: "Failed" },
  failing: "Most failing",
  noFailing: "No run failed in this time.",
  ofEnded: (failed: number, ended: number) => `${number(failed)} of ${number(ended)}`,
  slowest: "Slowest",
  slowestHint: "95 of 100 runs took at most",
  slowestCapped: "Of the last 1,000 runs that ended.",
  noSlowest: "No run ended in this time.",
  newest: "Last runs",
  all: "All runs",
};
