// From where a run is made anew, and with what: its inputs, or what one node is given, as JSON with the changes below.
import type { Signal } from "@preact/signals";
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call } from "../../../api/call.ts";
import { print } from "../../../api/exact.ts";
import { useLoad } from "../../../api/load.ts";
import { Loading } from "../../../kit/basics.tsx";
import { Diff } from "../../../kit/Diff.tsx";
import { findDifferences } from "../../../kit/diff.ts";
import { Field, Refusal } from "../../../kit/Sheet.tsx";
import { words } from "../../../words/actions.ts";
import type { RunStore } from "../store.ts";
import { readJson } from "./json.ts";

export interface RerunGiven {
  readonly fromNode: string;
  /** What was changed, by input or by node; undefined while nothing was. */
  readonly inputs: Readonly<Record<string, unknown>> | undefined;
  readonly problem?: string | undefined;
}

type Object_ = Record<string, unknown>;

export function RerunFields({ store, given }: { store: RunStore; given: Signal<RerunGiven> }) {
  const text = words.rerun;
  const from = given.value.fromNode;
  return (
    <>
      <Field label={text.from}>
        {(named) => (
          <select
            {...named}
            value={from}
            onChange={(event) => {
              given.value = { fromNode: event.currentTarget.value, inputs: undefined };
            }}
          >
            <option value="">{text.start}</option>
            {[...store.nodes.value.keys()].map((id) => (
              <option key={id} value={id}>
                {text.node(id)}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Edited key={from} store={store} given={given} node={from} />
    </>
  );
}

/** What is given now: the inputs of the run, or the outputs of the nodes before the node. */
async function readBefore(store: RunStore, node: string, signal: AbortSignal): Promise<Object_> {
  const path = { run_id: store.runId };
  if (!node) {
    const run = await call("GET /api/v1/runs/{run_id}", { path, query: { outputs: false }, signal });
    return (run.inputs ?? {}) as Object_;
  }
  const graph = await call("GET /api/v1/runs/{run_id}/graph", { path, query: { open: ["*"] }, signal });
  const sources = graph.edges.filter((edge) => edge.to === node && edge.kind !== "back").map((edge) => edge.from);
  const found: Object_ = {};
  for (const source of new Set(sources)) {
    const one = await call("GET /api/v1/runs/{run_id}/nodes/{node}", { path: { ...path, node: source }, signal });
    if (one.state === "completed") found[source] = one.output ?? null;
  }
  return found;
}

function Edited({ store, given, node }: { store: RunStore; given: Signal<RerunGiven>; node: string }) {
  const text = words.rerun;
  const loaded = useLoad(`${store.runId} ${node}`, (signal) => readBefore(store, node, signal));
  const before = loaded.data.value;
  const typed = useSignal<string | undefined>(undefined);
  useEffect(() => {
    if (before) typed.value ??= print(before);
  }, [before]);
  if (!before) return loaded.error.value === undefined ? <Loading rows={2} /> : <Refusal error={loaded.error.value} />;
  if (Object.keys(before).length === 0 && node) return null;
  const put = (value: string) => {
    typed.value = value;
    const read = readJson(value);
    const problem =
      "problem" in read
        ? read.problem
        : read.value === null || typeof read.value !== "object" || Array.isArray(read.value)
          ? text.object
          : undefined;
    const found = problem === undefined && "value" in read ? (read.value as Object_) : undefined;
    const changed = found ? Object.entries(found).filter(([name, one]) => isOther(before, name, one)) : [];
    const inputs = changed.length ? Object.fromEntries(changed) : undefined;
    given.value = { fromNode: node, inputs, problem };
  };
  const after = { ...before, ...(given.value.inputs ?? {}) };
  return (
    <>
      <Field
        label={node ? text.given(node) : text.inputs}
        hint={given.value.problem ?? (node ? text.givenHint : text.inputsHint)}
      >
        {(named) => (
          <textarea
            {...named}
            class="code"
            rows={Math.min(12, Math.max(3, (typed.value ?? "").split("\n").length))}
            spellcheck={false}
            aria-invalid={given.value.problem !== undefined}
            value={typed.value ?? ""}
            onInput={(event) => put(event.currentTarget.value)}
          />
        )}
      </Field>
      {given.value.inputs !== undefined && <Diff found={findDifferences(before, after)} label={text.changed} />}
    </>
  );
}

function isOther(before: Object_, name: string, value: unknown): boolean {
  return !Object.hasOwn(before, name) || findDifferences(before[name], value).length > 0;
}
