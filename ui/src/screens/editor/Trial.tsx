// A run of what stands in the editor, without saving it: its states are shown in the graph of the editor.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call } from "../../api/call.ts";
import { Foreign, StateMark } from "../../kit/basics.tsx";
import { SchemaForm } from "../../kit/SchemaForm.tsx";
import { Sheet } from "../../kit/Sheet.tsx";
import { defaultsOf, type Schema } from "../../kit/schema.ts";
import { href } from "../../router.ts";
import { lacks } from "../../shell/me.ts";
import { words } from "../../words/editor.ts";
import { words as all } from "../../words/en.ts";
import { RunStore } from "../run/store.ts";
import type { Definition } from "./model.ts";

interface Asked {
  readonly definition: Definition;
  readonly onStart: (runId: string) => void;
  readonly onClose: () => void;
}

/** What it is, and what it is given. */
export function TrySheet({ definition, onStart, onClose }: Asked) {
  const schema = definition.inputs as Schema | undefined;
  const inputs = useSignal<unknown>((schema && defaultsOf(schema)) ?? {});
  const start = async () => {
    const body = { definition, inputs: inputs.peek() } as never;
    const started = await call("POST /api/v1/runs", { body });
    onStart(started.run_id);
  };
  const text = words.trial;
  return (
    <Sheet title={text.title} verb={text.start} onClose={onClose} onDo={start} whyNot={lacks("runs:start")}>
      <p>{text.about}</p>
      {schema && (
        <SchemaForm
          schema={schema}
          value={inputs.value as Record<string, unknown>}
          onChange={(value) => (inputs.value = value)}
        />
      )}
    </Sheet>
  );
}

/** How it goes, as a line, until it is closed; and the states of its nodes for the graph. */
export function Trial({ runId, onMarks, onClose }: TrialGiven) {
  const store = useSignal<RunStore | undefined>(undefined);
  useEffect(() => {
    const made = new RunStore(runId);
    made.open();
    made.pictured();
    store.value = made;
    const stop = made.nodes.subscribe((nodes) => onMarks(new Map([...nodes].map(([id, node]) => [id, node.state]))));
    return () => {
      stop();
      made.close();
      onMarks(undefined);
    };
  }, [runId]);
  const run = store.value?.run.value;
  const why = store.value && [...store.value.why.value.values()][0];
  return (
    <p class="reason trial" data-group="busy" role="status">
      <span>
        {words.trial.runs} {run && <StateMark state={run.state} waiting={run.waiting ?? false} small />}{" "}
        {run?.error ? <Foreign text={run.error.code} /> : why !== undefined && <Foreign text={why} className="soft" />}
      </span>
      <span class="past-ways">
        <a class="button" href={href(`/runs/${encodeURIComponent(runId)}`)}>
          {words.trial.open}
        </a>
        <button type="button" onClick={onClose}>
          {all.close}
        </button>
      </span>
    </p>
  );
}

interface TrialGiven {
  readonly runId: string;
  readonly onMarks: (marks: ReadonlyMap<string, string> | undefined) => void;
  readonly onClose: () => void;
}
