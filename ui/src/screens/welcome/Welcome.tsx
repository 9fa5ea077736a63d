// The first minute: hints beside a run of the sample, one at a time, and the button that kills the process for real.
import { signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { addressOf, call, now } from "../../api/call.ts";
import { Command } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { change, go, href } from "../../router.ts";
import { boot } from "../../shell/boot.ts";
import { welcome } from "../../words/welcome.ts";
import { hasEnded, type RunStore, type RunView } from "../run/store.ts";
import { stageOf } from "./stage.ts";

const KEEP = "welcome";
const APPROVER = "you";
const SAMPLE = "sample-order";

function wasDismissed(): boolean {
  try {
    return localStorage.getItem(KEEP) === "off";
  } catch {
    return false;
  }
}

const dismissed = signal(wasDismissed());

function dismiss(): void {
  dismissed.value = true;
  try {
    localStorage.setItem(KEEP, "off");
  } catch {
    // until the page is closed
  }
  change({ welcome: undefined }, true);
}

/** What a kill did, as far as it is known. */
interface Kill {
  readonly at: number;
  readonly done: ReadonlySet<string>;
  readonly busy: readonly string[];
  readonly backAfter?: number;
  readonly lost?: number;
  readonly repeated?: number;
}

export default function Welcome({ store, run }: { store: RunStore; run: RunView }) {
  const kill = useSignal<Kill | undefined>(undefined);
  const error = useSignal<unknown>(undefined);
  const reached = useRef({ run: run.run_id, stage: 1 });
  useReturn(store, kill);
  if (dismissed.value || boot.value === undefined) return null;
  const text = welcome;
  const person = [...store.nodes.value].find(([, node]) => node.waiting_for?.kind === "approval")?.[0];
  const seen = { ended: hasEnded(run), asked: person !== undefined, killed: kill.value !== undefined };
  const stage = stageOf(seen, reached.current.run === run.run_id ? reached.current.stage : 1);
  reached.current = { run: run.run_id, stage };
  const act = async (action: () => Promise<void>) => {
    error.value = undefined;
    try {
      await action();
    } catch (caught) {
      error.value = caught;
    }
  };
  return (
    <section class="welcome" aria-labelledby="welcome-title" data-stage={stage}>
      <header>
        <p class="soft number">{text.count(stage)}</p>
        <button type="button" class="quiet" onClick={dismiss}>
          {text.dismiss}
        </button>
      </header>
      <h2 id="welcome-title">{text.titles[stage]}</h2>
      <p>{text.texts[stage]}</p>
      {kill.value && <Result kill={kill.value} />}
      {error.value !== undefined && <Problem error={error.value} />}
      {stage === 4 ? (
        <YourTurn act={act} />
      ) : (
        <p class="buttons">
          {person !== undefined && (
            <button type="button" class="main" onClick={() => act(() => approve(run.run_id, person))}>
              {text.approve}
            </button>
          )}
          {boot.value.dev && (
            <button
              type="button"
              class={stage === 1 ? "main danger" : "danger"}
              disabled={kill.value !== undefined && kill.value.backAfter === undefined}
              onClick={() =>
                act(async () => {
                  kill.value = remember(store);
                  await call("POST /api/v1/dev/kill");
                })
              }
            >
              {text.kill}
            </button>
          )}
        </p>
      )}
    </section>
  );
}

function remember(store: RunStore): Kill {
  const nodes = [...store.nodes.peek()];
  return {
    at: now(),
    done: new Set(nodes.filter(([, node]) => node.state === "completed").map(([id]) => id)),
    busy: nodes.filter(([, node]) => node.state === "running" || node.state === "queued").map(([id]) => id),
  };
}

/** Notes when the server is back, and counts what was lost and what is done again. */
function useReturn(store: RunStore, kill: { value: Kill | undefined }): void {
  const goneAt = useRef<number | undefined>(undefined);
  const { state } = store.live.value;
  const found = kill.value;
  useEffect(() => {
    if (!found || found.backAfter !== undefined) return;
    if (state !== "live") goneAt.current ??= performance.now();
    else if (goneAt.current !== undefined) {
      kill.value = { ...found, backAfter: (performance.now() - goneAt.current) / 1000 };
      goneAt.current = undefined;
    }
  }, [state, found]);
  useEffect(() => {
    if (found?.backAfter === undefined) return;
    let stopped = false;
    void count(store, found).then((counted) => {
      if (
        !stopped &&
        kill.value?.at === found.at &&
        (counted.repeated !== found.repeated || counted.lost !== found.lost)
      )
        kill.value = { ...found, ...counted };
    });
    return () => {
      stopped = true;
    };
  }, [found?.backAfter, store.readings.value]);
}

async function count(store: RunStore, kill: Kill): Promise<{ lost: number; repeated: number }> {
  const nodes = store.nodes.peek();
  const lost = [...kill.done].filter((id) => (nodes.get(id)?.visit ?? 1) === 1 && nodes.get(id)?.state !== "completed");
  let repeated = 0;
  for (const node of kill.busy) {
    const path = { run_id: store.runId, node };
    const details = await call("GET /api/v1/runs/{run_id}/nodes/{node}", { path }).catch(() => undefined);
    const crashed = (one: { state: string; ended_at?: number | null }) =>
      one.state === "crashed" && (one.ended_at ?? 0) >= kill.at - 2;
    if (details?.attempts.some(crashed)) repeated += 1;
  }
  return { lost: lost.length, repeated };
}

function Result({ kill }: { kill: Kill }) {
  const text = welcome;
  return (
    <p class="result" role="status">
      <span class="live" data-live={kill.backAfter === undefined ? "waiting" : "live"}>
        {kill.backAfter === undefined ? text.gone : text.back(kill.backAfter)}
      </span>
      {kill.lost !== undefined && kill.repeated !== undefined && (
        <strong>{text.counted(kill.lost, kill.repeated)}</strong>
      )}
    </p>
  );
}

async function approve(runId: string, node: string): Promise<void> {
  const page = await call("GET /api/v1/approvals", { query: { run_id: runId } });
  const one = page.items.find((item) => item.node === node && item.state === "pending");
  if (!one) return;
  const path = { approval_id: one.approval_id };
  const body = { decision: "approve", comments: "", data: null, approver: APPROVER } as const;
  await call("POST /api/v1/approvals/{approval_id}/decide", { path, body });
}

/** What one can do next; also the whole of `/welcome`. */
export function YourTurn({ act }: { act: (action: () => Promise<void>) => Promise<void> }) {
  const text = welcome;
  return (
    <>
      <div class="commands">
        {text.commands.map((one) => (
          <Command key={one} text={one} />
        ))}
      </div>
      {boot.value?.dev && (
        <p class="buttons">
          <button
            type="button"
            class="main"
            onClick={() =>
              act(async () => {
                const begun = await call("POST /api/v1/dev/sample");
                go(href(`/runs/${encodeURIComponent(begun.run_id)}`, { welcome: "1" }));
              })
            }
          >
            {text.again}
          </button>
          <a class="button" href={href(`/workflows/${SAMPLE}/edit`)}>
            {text.edit}
          </a>
          <a
            class="button"
            href={addressOf("GET /api/v1/workflows/{name}/definition.yaml", { path: { name: SAMPLE } })}
            download={`${SAMPLE}.yaml`}
          >
            {text.yaml}
          </a>
          <button
            type="button"
            onClick={() =>
              act(async () => {
                await call("DELETE /api/v1/dev/sample");
                go(href("/runs"));
              })
            }
          >
            {text.remove}
          </button>
        </p>
      )}
    </>
  );
}
