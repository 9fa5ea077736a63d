// The sheet of one action: what it does, what happens next, what it asks; and afterwards what the journal says of it.
import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { type Answer, call, type Schemas } from "../../../api/call.ts";
import { useLoad } from "../../../api/load.ts";
import { Loading } from "../../../kit/basics.tsx";
import { CopyAs } from "../../../kit/CopyAs.tsx";
import { Field, Refusal, Sheet } from "../../../kit/Sheet.tsx";
import { go, href } from "../../../router.ts";
import { lacks } from "../../../shell/me.ts";
import { words } from "../../../words/actions.ts";
import { costs } from "../../../words/costs.ts";
import { hasEnded, type RunStore, type RunView } from "../store.ts";
import type { ActionName, Wish } from "../wish.ts";
import { BudgetFields, type BudgetGiven } from "./BudgetFields.tsx";
import { bodyOf, doingOf, type Given } from "./doing.ts";
import { Followed } from "./Followed.tsx";
import { Next, type Preview } from "./Next.tsx";
import { RerunFields, type RerunGiven } from "./RerunFields.tsx";
import { SignalFields, type SignalGiven } from "./SignalFields.tsx";

export { TellSheet } from "../TellSheet.tsx";

const HARMFUL = new Set<ActionName>(["cancel", "force", "rollback"]);
const WITH_REASON = new Set<ActionName>(["pause", "cancel", "force", "retry"]);

interface Props {
  store: RunStore;
  run: RunView;
  wish: Wish;
  onClose: () => void;
}

export default function ActionSheet({ store, run, wish, onClose }: Props) {
  const { action } = wish;
  const runId = store.runId;
  const reason = useSignal("");
  const rerun = useSignal<RerunGiven>({ fromNode: action === "rerun" ? (wish.about ?? "") : "", inputs: undefined });
  const sent = useSignal<SignalGiven>({ name: action === "signal" ? (wish.about ?? "") : "", payload: null, id: "" });
  const larger = useSignal<BudgetGiven>({ budget: undefined });
  // Asked once: as soon as it has more, the reason is gone, and the fields would be.
  const isShort = useMemo(() => lacksBudget(action, store, run), []);
  const doneAt = useSignal<number | undefined>(undefined);
  const before = useMemo(() => run.state, []);
  const given: Given = {
    reason: reason.value.trim(),
    fromNode: rerun.value.fromNode,
    inputs: rerun.value.inputs,
    name: sent.value.name.trim(),
    payload: sent.value.payload,
    signalId: sent.value.id.trim(),
    budget: isShort ? larger.value.budget : undefined,
  };
  const found = useLoad(previewKey(runId, action, given, run.state), (signal) => look(runId, action, given, signal));
  const preview = found.data.value?.preview;
  const problem =
    rerun.value.problem ??
    (action === "signal" ? signalProblem(sent.value) : isShort ? budgetProblem(larger.value) : undefined);
  const needs = action === "rerun" && given.fromNode && given.inputs !== undefined ? ["workflows:write"] : [];
  const refused = preview && !preview.possible && preview.code !== "budget_exhausted"; // that is what the fields are for
  const whyNot = lacks("runs:operate", ...needs) ?? problem ?? (refused ? (preview.why_not ?? "") : undefined);
  const act = async () => {
    const path = { run_id: runId };
    const { last_seq } = await call("GET /api/v1/runs/{run_id}/events", { path, query: { limit: 1, outputs: false } });
    const answer = await send(runId, action, given);
    if (action === "rerun") {
      onClose();
      go(href(`/runs/${encodeURIComponent((answer as Schemas["RunStarted"]).run_id)}`));
      return;
    }
    if (hasEnded(run)) store.retry(); // it goes on, and is followed again
    doneAt.value = last_seq;
  };
  return (
    <Sheet
      title={words.titles[action]}
      verb={words.verbs[action]}
      keep={action === "cancel" ? words.sheet.keep : undefined}
      harmful={HARMFUL.has(action)}
      onClose={onClose}
      onDo={act}
      whyNot={whyNot}
      done={doneAt.value === undefined ? undefined : <Followed store={store} after={doneAt.value} />}
    >
      <p>{words.does[action]}</p>
      {doneAt.value === undefined && (
        <>
          {action === "rerun" && <RerunFields store={store} given={rerun} />}
          {action === "signal" && <SignalFields given={sent} awaited={found.data.value?.signals ?? []} />}
          {isShort && <BudgetFields runId={runId} given={larger} />}
          {preview?.possible && action !== "signal" && <Next action={action} preview={preview} now={before} />}
          {!found.data.value && found.error.value === undefined && <Loading rows={2} />}
          {found.error.value !== undefined && <Refusal error={found.error.value} />}
          {WITH_REASON.has(action) && (
            <Field label={words.sheet.reason} hint={words.sheet.reasonHint}>
              {(named) => (
                <textarea
                  {...named}
                  rows={2}
                  maxLength={2000}
                  value={reason.value}
                  onInput={(event) => (reason.value = event.currentTarget.value)}
                />
              )}
            </Field>
          )}
          <CopyAs doing={doingOf(runId, action, given)} />
        </>
      )}
    </Sheet>
  );
}

/** Whether the run stands still, or failed, because its own budget is used up. */
export function lacksBudget(action: ActionName, store: RunStore, run: RunView): boolean {
  if (action === "retry") return run.error?.code === "budget_exhausted";
  const first = store.first.peek();
  return action === "resume" && first?.code === "paused" && first.reason === "budget";
}

function budgetProblem(given: BudgetGiven): string | undefined {
  return given.problem ?? (given.budget === undefined ? costs.given.needs : undefined);
}

function signalProblem(sent: SignalGiven): string | undefined {
  return sent.problem ?? (sent.name.trim() ? undefined : words.signal.needsName);
}

function previewKey(runId: string, action: ActionName, given: Given, state: string): string {
  const about = action === "rerun" ? `${given.fromNode} ${Object.keys(given.inputs ?? {}).join()}` : "";
  const budget = JSON.stringify(given.budget ?? {});
  return `${runId} ${action} ${state} ${about} ${budget}`;
}

interface Looked {
  readonly preview: Preview | undefined;
  readonly signals: readonly string[];
}

/** What it would do: a dry run where there is one, else what the list of actions says. */
async function look(runId: string, action: ActionName, given: Given, signal: AbortSignal): Promise<Looked> {
  const path = { run_id: runId };
  if (action === "pause" || action === "resume" || action === "signal") {
    const all = await call("GET /api/v1/runs/{run_id}/actions", { path, signal });
    return { preview: all.actions[action], signals: all.signals };
  }
  const body = { ...bodyOf(action, given), dry_run: true };
  return { preview: (await post(action, path, body as never, signal)) as Preview, signals: [] };
}

type Posted =
  | Answer<"POST /api/v1/runs/{run_id}/cancel">
  | Answer<"POST /api/v1/runs/{run_id}/rerun">
  | Schemas["RunSummary"];

function post(action: ActionName, path: { run_id: string }, body: never, signal?: AbortSignal): Promise<Posted> {
  switch (action) {
    case "pause":
      return call("POST /api/v1/runs/{run_id}/pause", { path, body, signal });
    case "resume":
      return call("POST /api/v1/runs/{run_id}/resume", { path, body, signal });
    case "cancel":
    case "force":
      return call("POST /api/v1/runs/{run_id}/cancel", { path, body, signal });
    case "retry":
      return call("POST /api/v1/runs/{run_id}/retry", { path, body, signal });
    case "rerun":
      return call("POST /api/v1/runs/{run_id}/rerun", { path, body, signal });
    case "rollback":
      return call("POST /api/v1/runs/{run_id}/rollback", { path, body, signal });
    case "signal":
      return call("POST /api/v1/runs/{run_id}/signal", { path, body, signal });
  }
}

function send(runId: string, action: ActionName, given: Given): Promise<Posted> {
  return post(action, { run_id: runId }, bodyOf(action, given) as never);
}
