// The texts of the first minute.
import { many, number } from "./en.ts";

export const welcome = {
  title: "Welcome",
  intro:
    "Perdure runs workflows that survive whatever happens to their processes. From a terminal, in the folder of this server:",
  count: (stage: number) => `${number(stage)} of 4`,
  dismiss: "Do not show this again",
  titles: {
    1: "Each step is on disk before the next",
    2: "It goes on where it was",
    3: "A person is asked",
    4: "Your turn",
  } as Readonly<Record<number, string>>,
  texts: {
    1: "This order is running now: watch the graph. Then kill the process that runs it, for real, as kill -9 does.",
    2: "Another process took over. What had completed stays; what was interrupted is tried again, and the graph shows its second attempt.",
    3: "The order waits until you agree. It could wait for a year, and through every restart.",
    4: "The order is done. Everything that happened is in its journal. Now a workflow of your own, from a terminal in the folder of this server:",
  } as Readonly<Record<number, string>>,
  kill: "Kill the process",
  gone: "gone …",
  back: (seconds: number) => `back after ${seconds.toFixed(1)} s`,
  counted: (lost: number, repeated: number) => `${many(lost, "step", "steps")} lost, ${number(repeated)} repeated`,
  approve: "Approve",
  again: "Run again",
  edit: "Edit",
  yaml: "YAML",
  remove: "Remove the sample",
  commands: ["perdure init hello", "perdure run hello/order.yaml -i item=lamp -i quantity=2", "perdure runs list"],
} as const;
