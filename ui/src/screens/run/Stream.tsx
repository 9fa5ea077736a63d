// What a node yields, while it yields it: words run on as they are said, other chunks stand one in a line.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { write } from "../../api/exact.ts";
import { followChunks, type StreamState } from "../../api/stream.ts";
import { Foreign } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { stream as text } from "../../words/node.ts";
import { type Flow, NOTHING, withFrames } from "./chunks.ts";
import type { RunStore } from "./store.ts";

const SOONEST_MS = 100;

interface Given {
  readonly store: RunStore;
  readonly node: string;
  readonly ports: readonly string[];
}

export function Stream({ store, node, ports }: Given) {
  const chosen = useSignal(ports[0]!);
  const port = ports.includes(chosen.value) ? chosen.value : ports[0]!;
  return (
    <section class="stream">
      <h3>
        {text.title}
        {ports.length > 1 && (
          <select aria-label={text.port} value={port} onChange={(event) => (chosen.value = event.currentTarget.value)}>
            {ports.map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        )}
      </h3>
      {/* A run that is retried goes on where its stream had ended. */}
      <Port
        key={`${port} ${store.run.value?.generation}`}
        runId={store.runId}
        node={node}
        port={port}
        name={ports.length > 1 ? port : ""}
      />
    </section>
  );
}

function Port({ runId, node, port, name }: { runId: string; node: string; port: string; name: string }) {
  const flow = useSignal<Flow>(NOTHING);
  const state = useSignal<StreamState>("connecting");
  const error = useSignal<unknown>(undefined);
  const turn = useSignal(0);
  useEffect(() => {
    let found = NOTHING;
    let timer: ReturnType<typeof setTimeout> | undefined;
    // As fast as chunks come, they are shown ten times a second.
    const tell = () => {
      timer = undefined;
      flow.value = found;
    };
    const following = followChunks({ run_id: runId, node }, port, {
      onFrames: (frames) => {
        found = withFrames(found, frames, write);
        timer ??= setTimeout(tell, SOONEST_MS);
      },
      onState: (next) => {
        state.value = next;
      },
      onError: (caught) => {
        error.value = caught;
      },
    });
    return () => {
      clearTimeout(timer);
      following.end();
    };
  }, [runId, node, port, turn.value]);
  if (error.value !== undefined) {
    const again = () => {
      error.value = undefined;
      turn.value += 1;
    };
    return <Problem error={error.value} onRetry={again} />;
  }
  return <Shown flow={flow.value} state={state.value} name={name} />;
}

function Shown({ flow, state, name }: { flow: Flow; state: StreamState; name: string }) {
  const box = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  useEffect(() => {
    const element = box.current;
    if (element && atEnd.current) element.scrollTop = element.scrollHeight;
  }, [flow]);
  const { kept, count, end } = flow;
  const hidden = count - kept.length;
  return (
    <>
      <p class="stream-facts soft" role="status">
        <span class="live" data-live={end ? "ended" : state}>
          {end ? (text.ends[end] ?? end) : count ? text.states[state] : text.waits}
        </span>
        {count > 0 && <span class="number">{text.count(count)}</span>}
      </p>
      {flow.restarts > 0 && <p class="notice">{text.restarted(flow.edition)}</p>}
      {flow.error && (
        <p class="bad">
          <Foreign text={flow.error} />
        </p>
      )}
      {hidden > 0 && <p class="soft small">{text.hidden(hidden)}</p>}
      {kept.length > 0 && (
        <div
          class={flow.isText ? "chunks spoken" : "chunks"}
          ref={box}
          role="log"
          aria-live="off"
          aria-label={text.label(name)}
          tabIndex={0}
          onScroll={({ currentTarget: one }) => {
            atEnd.current = one.scrollHeight - one.scrollTop - one.clientHeight < 24;
          }}
        >
          {flow.isText ? (
            <Foreign text={kept.map((one) => one.text).join("")} />
          ) : (
            <ol start={kept[0]!.number}>
              {kept.map((one) => (
                <li key={one.number} value={one.number}>
                  <Foreign text={one.text} />
                </li>
              ))}
            </ol>
          )}
        </div>
      )}
    </>
  );
}
