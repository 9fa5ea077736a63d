// Tell: something is said to an agent at work, which reads it before its next turn.
import { useSignal } from "@preact/signals";
import { useState } from "preact/hooks";
import { call } from "../../api/call.ts";
import { CopyAs } from "../../kit/CopyAs.tsx";
import type { Doing } from "../../kit/commands.ts";
import { Field, Sheet } from "../../kit/Sheet.tsx";
import { lacks } from "../../shell/me.ts";
import { words } from "../../words/actions.ts";

interface Props {
  readonly runId: string;
  readonly node: string;
  readonly onClose: () => void;
}

const MOST = 4000;

export function TellSheet({ runId, node, onClose }: Props) {
  const text = words.tell;
  const said = useSignal("");
  const done = useSignal(false);
  // Asked twice with one id it is one letter, whatever happens to the first answer.
  const [messageId] = useState(() => crypto.randomUUID());
  const act = async () => {
    const path = { run_id: runId, node };
    const body = { text: said.value, item: null, message_id: messageId };
    await call("POST /api/v1/runs/{run_id}/nodes/{node}/messages", { path, body });
    done.value = true;
  };
  return (
    <Sheet
      title={text.title(node)}
      verb={text.verb}
      onClose={onClose}
      onDo={act}
      whyNot={lacks("runs:operate") ?? (said.value.trim() ? undefined : text.needs)}
      done={done.value ? <p role="status">{text.done}</p> : undefined}
    >
      <p>{text.does}</p>
      {!done.value && (
        <>
          <Field label={text.text}>
            {(named) => (
              <textarea
                {...named}
                rows={4}
                maxLength={MOST}
                value={said.value}
                onInput={(event) => (said.value = event.currentTarget.value)}
              />
            )}
          </Field>
          <CopyAs doing={tellDoing(runId, node, said.value)} />
        </>
      )}
    </Sheet>
  );
}

export function tellDoing(runId: string, node: string, text: string): Doing {
  return {
    command: ["runs", "tell", runId, node, text],
    method: "POST",
    path: `/api/v1/runs/${encodeURIComponent(runId)}/nodes/${encodeURIComponent(node)}/messages`,
    body: { text },
    python: ["runs.tell", [runId, node, text], {}],
  };
}
