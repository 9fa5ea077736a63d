// One dead letter: its error, what was tried, what it was given, and the two ways out.
import { useSignal } from "@preact/signals";
import { addressOf, call } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Foreign, Loading, Moment, StateMark } from "../../kit/basics.tsx";
import { Json } from "../../kit/Json.tsx";
import { isItem } from "../../kit/mailbox.ts";
import { Problem } from "../../kit/problem.tsx";
import { href } from "../../router.ts";
import { lacks } from "../../shell/me.ts";
import { number } from "../../words/en.ts";
import { words } from "../../words/people.ts";
import { nodeName } from "./naming.ts";
import { OneSheet, type Repair } from "./sheets.tsx";

export function Letter({ id }: { id: string }) {
  const text = words.letters;
  const repair = useSignal<Repair | undefined>(undefined);
  const loaded = useLoad(id, (signal) =>
    call("GET /api/v1/dead-letters/{dead_letter_id}", { path: { dead_letter_id: id }, signal }),
  );
  const letter = loaded.data.value;
  const off = lacks("dead_letters:operate");
  const ask = (what: Repair) => () => {
    if (off === undefined) repair.value = what;
  };
  if (!letter)
    return (
      <section class="screen">
        <h1 class="hidden">{text.title}</h1>
        {loaded.error.value === undefined ? (
          <Loading />
        ) : (
          <Problem error={loaded.error.value} onRetry={loaded.reload} />
        )}
      </section>
    );
  const code = letter.error?.code;
  const trigger = isItem(letter.workflow) ? letter.trigger : undefined;
  return (
    <section class="screen">
      <div class="crumbs">
        <a href={href("/dead-letters")}>{text.all}</a>
        <span aria-hidden="true">/</span>
        <a href={href("/dead-letters", { workflow: letter.workflow ?? undefined, node: letter.node, code })}>
          <Foreign text={text.inGroup(nodeName(letter.workflow, letter.node), code ?? text.noCode)} />
        </a>
      </div>
      <header class="head">
        <h1>
          <Foreign text={trigger === undefined ? letter.node : text.itemOf(trigger, letter.item ?? 0)} />
        </h1>
        {letter.state === "pending" ? (
          <p class="letter-buttons">
            {off !== undefined && <span class="why-not">{off}</span>}
            <button type="button" class="strong" aria-disabled={off !== undefined} onClick={ask("requeue")}>
              {text.requeue}
            </button>
            <button type="button" aria-disabled={off !== undefined} onClick={ask("discard")}>
              {text.discard}
            </button>
          </p>
        ) : (
          <p class="soft" role="status">
            <Foreign text={text.resolved[letter.state](letter.by ?? "")} />
          </p>
        )}
      </header>
      <article class="letter-detail">
        <p class="soft facts-line">
          <StateMark state={letter.state === "pending" ? "parked" : "completed"} small />
          {trigger === undefined ? (
            <a href={href(`/runs/${encodeURIComponent(letter.run_id)}`, { node: letter.node })}>
              <Foreign text={letter.workflow ?? text.unnamed} /> · <Foreign text={letter.run_id} className="id" />
            </a>
          ) : (
            <a href={href(`/triggers/${encodeURIComponent(trigger)}`)}>
              <Foreign text={text.openTrigger(trigger)} />
            </a>
          )}
          <span>
            {text.since} <Moment at={letter.created_at} />
          </span>
          {trigger === undefined && (
            <span>
              {text.attempts} {number(letter.attempt)}
            </span>
          )}
          {trigger === undefined && letter.item !== null && <span>{text.item(letter.item)}</span>}
          {letter.undo && <span>{text.undo}</span>}
        </p>
        {letter.error && (
          <section>
            <h2>{text.error}</h2>
            <div class="failure">
              <code>{letter.error.code}</code>
              {letter.error.message && (
                <pre>
                  <Foreign text={letter.error.message} />
                </pre>
              )}
            </div>
          </section>
        )}
        {letter.problem && (
          <p class="soft">
            {text.problem} <Foreign text={letter.problem} />
          </p>
        )}
        {!letter.problem && (
          <>
            {trigger === undefined && (
              <section>
                <h2>{text.config}</h2>
                <Json value={letter.config} copy />
              </section>
            )}
            <section>
              <h2>{text.inputs}</h2>
              <Json value={letter.inputs} copy />
            </section>
          </>
        )}
        {trigger === undefined && (
          <details class="run-so-far">
            <summary>{words.approvals.run}</summary>
            <img
              src={addressOf("GET /api/v1/runs/{run_id}/graph.svg", { path: { run_id: letter.run_id } })}
              alt={words.approvals.run}
              loading="lazy"
            />
          </details>
        )}
      </article>
      {repair.value && (
        <OneSheet
          repair={repair.value}
          letter={letter}
          onClose={() => {
            repair.value = undefined;
            loaded.reload();
          }}
        />
      )}
    </section>
  );
}
