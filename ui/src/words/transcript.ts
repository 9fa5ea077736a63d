// The texts of what a model was told, said and called.
import { many, number } from "./en.ts";
import { dollars } from "./money.ts";

export const transcript = {
  title: "Transcript",
  sealed: "This node has sensitive fields: nothing of what was said is shown.",
  none: "The model was not asked yet.",
  instructions: "Instructions",
  roles: { user: "Told", assistant: "Said before" } as Readonly<Record<string, string>>,
  images: (count: number) => many(count, "image", "images"),
  turn: (turn: number) => `Turn ${number(turn)}`,
  took: (seconds: string) => `in ${seconds}`,
  tokens: (input: number, output: number) => `${number(input)} tokens in, ${number(output)} out`,
  cost: (usd: number, priced: boolean) => (priced ? dollars(usd) : `${dollars(usd)} and more: a price is missing`),
  asking: "The model is asked now",
  arguments: "Arguments",
  changed: "Arguments as a person changed them",
  result: "What the model was told of it",
  verdicts: { allow: "allowed", ask: "a person was asked", deny: "denied", invalid: "not a valid call" } as Readonly<
    Record<string, string>
  >,
  outcomes: { made: "made", failed: "failed", refused: "refused" } as Readonly<Record<string, string>>,
  open: "under way",
  trifecta: "It had read what strangers write and what is private, and this tool sends.",
  rule: (rule: string) => `rule ${rule}`,
  decided: (decision: string, by: string) => `${decision}${by ? ` by ${by}` : ""}`,
  approval: "Look at the approval",
  child: "Open its run",
  drift: "The code that makes requests has changed since.",
  more: "More turns",
} as const;
