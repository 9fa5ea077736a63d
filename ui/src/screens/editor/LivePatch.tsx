// Patch a run while it goes on: the same editor on the definition the run has now, with the proof that it can take the change.
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { useLoad } from "../../api/load.ts";
import { Foreign, Loading } from "../../kit/basics.tsx";
import { CopyAs } from "../../kit/CopyAs.tsx";
import type { Doing } from "../../kit/commands.ts";
import { Problem } from "../../kit/problem.tsx";
import { go, href } from "../../router.ts";
import { lacks, readMe } from "../../shell/me.ts";
import { words } from "../../words/editor.ts";
import { words as all } from "../../words/en.ts";
import { Proof, type Proven } from "./proof.ts";
import { Session } from "./session.ts";
import { Workbench } from "./Workbench.tsx";

export default function LivePatch({ names }: { names: Readonly<Record<string, string>> }) {
  const runId = names.run_id ?? "";
  const session = useMemo(() => new Session(`run ${runId}`), [runId]);
  const proof = useMemo(() => new Proof(runId, session), [session]);
  useEffect(() => {
    document.title = `${words.run(runId)} · ${all.product}`;
    void readMe();
    return () => {
      proof.end();
      session.end();
    };
  }, [session]);
  const loaded = useLoad(runId, () => proof.open());
  return (
    <section class="screen editor">
      <div class="crumbs">
        <a href={href("/runs")}>{all.run.back}</a>
        <span aria-hidden="true">/</span>
        <a href={href(`/runs/${encodeURIComponent(runId)}`)}>
          <Foreign text={runId} className="id" />
        </a>
      </div>
      <h1>
        <Foreign text={words.run(runId)} />
      </h1>
      {loaded.error.value !== undefined ? (
        <Problem error={loaded.error.value} onRetry={loaded.reload} />
      ) : loaded.data.value === undefined ? (
        <Loading />
      ) : loaded.data.value ? (
        <Workbench session={session} marks={proof.states.value}>
          <Panel runId={runId} session={session} proof={proof} />
        </Workbench>
      ) : (
        <p class="nothing soft">{words.proof.gone}</p>
      )}
    </section>
  );
}

function Panel({ runId, session, proof }: { runId: string; session: Session; proof: Proof }) {
  const text = words.proof;
  const reason = useSignal("");
  const error = useSignal<unknown>(undefined);
  const busy = useSignal(false);
  const proven = proof.proven.value;
  const fits =
    proven !== undefined &&
    proven.seq === proof.seq.value &&
    proven.patch === session.patch.value &&
    !session.checking.value &&
    !proof.theirs.value;
  const idle = session.patch.value?.length === 0;
  const why = lacks("runs:patch", "workflows:write");
  const missing = why ?? (fits && proven.result.possible && !reason.value.trim() ? text.reason : undefined);
  const apply = async (event: Event) => {
    event.preventDefault();
    busy.value = true;
    try {
      if (await proof.apply(reason.value)) {
        session.forget();
        go(href(`/runs/${encodeURIComponent(runId)}`));
        return;
      }
    } catch (caught) {
      error.value = caught;
    }
    busy.value = false;
  };
  return (
    <form class="card proof" onSubmit={apply} data-proven={fits}>
      <h2>{text.title}</h2>
      {proof.ended.value ? (
        <p>{text.ended}</p>
      ) : idle ? (
        <p class="soft">{text.same}</p>
      ) : !session.definition.value && !session.checking.value ? (
        <p class="soft">{words.form.mend}</p>
      ) : proof.error.value !== undefined ? (
        <Problem error={proof.error.value} onRetry={() => proof.wish()} />
      ) : proven && fits ? (
        <Verdict proven={proven} />
      ) : (
        <p class="soft">{words.checking}</p>
      )}
      {(proof.theirs.value || proof.rebased.value > 0) && (
        <p class="soft moved" role="status">
          {proof.theirs.value ? text.kept : text.rebased}{" "}
          {proof.moved.value.length > 0 && <Foreign text={text.moved(proof.moved.value.slice(0, 20).join(", "))} />}
        </p>
      )}
      <label class="field">
        {words.saving.reason}
        <input
          type="text"
          maxLength={2000}
          placeholder={words.saving.reasonHint}
          value={reason.value}
          onInput={(event) => (reason.value = event.currentTarget.value)}
        />
      </label>
      {error.value !== undefined && <Problem error={error.value} />}
      {!idle && <CopyAs doing={patchDoing(runId, session.patch.value ?? [], reason.value)} />}
      <p>
        <button
          type="submit"
          class="primary"
          disabled={busy.value || idle || !fits || !proven.result.possible || missing !== undefined}
          title={missing}
        >
          {words.saving.apply}
        </button>
      </p>
    </form>
  );
}

function patchDoing(runId: string, patch: readonly unknown[], reason: string): Doing {
  return {
    method: "POST",
    path: `/api/v1/runs/${encodeURIComponent(runId)}/patch`,
    body: { patch, reason: reason || undefined },
    python: ["runs.patch", [runId, patch], { reason: reason || undefined }],
  };
}

function Verdict({ proven: { result, seq } }: { proven: Proven }) {
  const text = words.proof;
  const lists = [
    [text.added, result.added],
    [text.removed, result.removed],
    [text.changed, result.changed],
    [text.edges, [...result.edges_added, ...result.edges_removed]],
  ] as const;
  return (
    <>
      {result.possible ? (
        <p class="verdict" data-group="good">
          {text.possible}
        </p>
      ) : (
        <p class="verdict" data-group="bad">
          {text.refused} <Foreign text={result.refused || result.problems.map((one) => one.message).join("; ")} />
        </p>
      )}
      <dl class="facts">
        {lists.map(([name, found]) =>
          found.length ? (
            <div key={name}>
              <dt>{name}</dt>
              <dd>
                <Foreign text={found.slice(0, 20).join(", ")} />
              </dd>
            </div>
          ) : null,
        )}
      </dl>
      <p class="soft">
        {text.keeps} {text.asked(seq)}
      </p>
    </>
  );
}
