// The texts of the editor.
import { number } from "./en.ts";

const plurals = new Intl.PluralRules("en");
const many = (count: number, one: string, other: string): string =>
  `${number(count)} ${plurals.select(count) === "one" ? one : other}`;

export const words = {
  title: (name: string) => `Edit ${name}`,
  fresh: "New workflow",
  run: (id: string) => `Patch run ${id}`,
  text: "Definition as YAML",
  textTitle: "Text",
  comments: "Comments in the text are not kept when it is saved, nor when the form changes it.",
  graph: "Graph of the definition",
  stale: "The text has problems: this is the last graph without any.",
  nothing: "The graph appears as soon as the text can be read.",
  views: { label: "How to edit", text: "Text", form: "Form" },
  checking: "checking",
  valid: "No problems",
  problems: (count: number) => many(count, "problem", "problems"),
  goTo: (line: number) => `line ${number(line)}`,
  form: {
    choose: "Choose a node in the graph or in the list to edit it here.",
    mend: "The form needs a definition without problems: mend the text first.",
    add: "Add a node",
    type: "Type",
    after: "Runs after",
    none: "nothing",
    insert: "Add",
    cancel: "Cancel",
    id: "Name",
    config: "Config",
    when: "Only if",
    names: (count: number) => `What can be named here (${number(count)})`,
    rest: "Everything else of the node, as JSON",
    remove: "Remove this node",
    bad: (message: string) => `This is no JSON: ${message}`,
  },
  undo: "Undo and redo work in the text, also for what the form did.",
  draft: "You had begun to edit this: the draft is here again.",
  discard: "Discard the draft",
  save: "Save",
  trial: {
    verb: "Try",
    title: "Try what stands here",
    about:
      "This starts a run of it without saving it. It is a real run (version 0): what its nodes do outside is done. You see it in the graph.",
    start: "Start",
    runs: "The trial run is",
    open: "Open the run",
  },
  saving: {
    title: "Save a new version",
    run: "Apply to the run",
    reason: "Reason",
    reasonHint: "why; it is written down",
    none: "Nothing has changed.",
    apply: "Apply",
    done: (version: number) => `Saved as version ${number(version)}.`,
  },
  conflict: {
    title: (version: number) => `Version ${number(version)} came meanwhile`,
    text: "Your changes and those of the other version were brought together. Nothing of yours is lost.",
    clashes: "Both changed these. Choose for each:",
    mine: "yours",
    theirs: "the other's",
    take: "Go on with this",
  },
  proof: {
    title: "Can the run take it?",
    same: "Nothing has changed yet.",
    possible: "Yes: the run can take this change now.",
    refused: "No:",
    added: "Added",
    removed: "Removed",
    changed: "Changed",
    edges: "Edges",
    keeps: "Nodes that are done or under way keep what they have.",
    asked: (seq: number) => `Asked at event ${number(seq)}; asked again whenever the run moves.`,
    ended: "The run has ended; a retry or a rerun can take another definition.",
    reason: "A reason is needed.",
    gone: "The definition of this run is no longer kept, so it cannot be patched.",
    kept: "Another patch came meanwhile. Your text is as you left it; once it has no problems, both are brought together.",
    moved: (nodes: string) => `That patch changed ${nodes}.`,
    rebased:
      "Another patch came meanwhile: your changes were brought together with it. Where both changed the same, yours stands.",
  },
  example: `name: my-workflow
nodes:
  - id: first
    type: transform
    config: {value: hello}
`,
} as const;
