// What dead letters are called: an item of a trigger is kept by a run of the system, whose names say nothing to a reader.
import { isItem } from "../../kit/mailbox.ts";
import { words } from "../../words/people.ts";

const text = words.letters;

export const workflowName = (workflow: string | null | undefined): string =>
  isItem(workflow) ? text.triggers : (workflow ?? text.unnamed);

export const nodeName = (workflow: string | null | undefined, node: string): string =>
  isItem(workflow) ? text.items : node;
