// The sheets that ask before dead letters are requeued or discarded: one, or many by a count that must still be right.
import { useSignal } from "@preact/signals";
import { call, Refused, type Schemas } from "../../api/call.ts";
import { print, write } from "../../api/exact.ts";
import { useLoad } from "../../api/load.ts";
import { Foreign, Loading } from "../../kit/basics.tsx";
import { CopyAs } from "../../kit/CopyAs.tsx";
import type { Doing } from "../../kit/commands.ts";
import { Diff } from "../../kit/Diff.tsx";
import { findDifferences } from "../../kit/diff.ts";
import { isItem } from "../../kit/mailbox.ts";
import { Field, Refusal, Sheet } from "../../kit/Sheet.tsx";
import { lacks } from "../../shell/me.ts";
import { words as general } from "../../words/en.ts";
import { words } from "../../words/people.ts";
import { readJson } from "../run/sheet/json.ts";
import { nodeName } from "./naming.ts";

export type Repair = "requeue" | "discard";
type As = "skip" | "fail" | "continue";
type Details = Schemas["DeadLetterDetails"];
const WAYS: readonly As[] = ["skip", "fail", "continue"];

export function OneSheet({ repair, letter, onClose }: { repair: Repair; letter: Details; onClose: () => void }) {
  const text = words.letters;
  const as = useSignal<As>("skip");
  const typed = useSignal(letter.config === null ? "" : print(letter.config));
  const done = useSignal(false);
  const item = isItem(letter.workflow);
  const path = { dead_letter_id: letter.dead_letter_id };
  const read = readJson(typed.value);
  const value = "value" in read ? read.value : undefined;
  const changes = value === undefined ? [] : findDifferences(letter.config, value);
  const isChanged = repair === "requeue" && changes.length > 0;
  const found = useLoad(`${repair} ${as.value}`, async (signal) =>
    repair === "discard"
      ? ((await call("POST /api/v1/dead-letters/{dead_letter_id}/discard", {
          path,
          body: { as: as.value, dry_run: true },
          signal,
        })) as Schemas["Preview"])
      : undefined,
  );
  const preview = found.data.value;
  const whyNot =
    lacks("dead_letters:operate", ...(isChanged ? ["workflows:write"] : [])) ??
    (repair === "requeue" && "problem" in read ? read.problem : undefined) ??
    (isChanged && typed.value.includes('"***"') ? text.masked : undefined) ??
    (preview && !preview.possible ? (preview.why_not ?? "") : undefined);
  const act = async () => {
    if (repair === "requeue")
      await call("POST /api/v1/dead-letters/{dead_letter_id}/requeue", {
        path,
        body: isChanged ? ({ config: value } as never) : undefined,
      });
    else
      await call("POST /api/v1/dead-letters/{dead_letter_id}/discard", {
        path,
        body: { as: as.value, dry_run: false },
      });
    done.value = true;
  };
  return (
    <Sheet
      title={text.sheets[repair]}
      verb={text[repair]}
      harmful={repair === "discard"}
      onClose={onClose}
      onDo={act}
      whyNot={whyNot}
      done={done.value ? <p role="status">{(item ? text.doneItem : text.done)[repair]}</p> : undefined}
    >
      <p>{(item ? text.doesItem : text.does)[repair]}</p>
      {!done.value && (
        <>
          {repair === "requeue" && letter.config !== null && (
            <>
              <Field label={text.edit} hint={text.editHint}>
                {(named) => (
                  <textarea
                    {...named}
                    class="code"
                    rows={Math.min(14, Math.max(4, typed.value.split("\n").length))}
                    spellcheck={false}
                    aria-invalid={"problem" in read}
                    value={typed.value}
                    onInput={(event) => (typed.value = event.currentTarget.value)}
                  />
                )}
              </Field>
              {isChanged && <Diff found={changes} label={text.changed} />}
            </>
          )}
          {repair === "discard" && (
            <>
              {!item && <Ways as={as.value} onChoose={(next) => (as.value = next)} />}
              {preview?.possible && !item && <Next preview={preview} />}
              {found.error.value !== undefined && <Refusal error={found.error.value} />}
            </>
          )}
          <CopyAs doing={doingOf(letter.dead_letter_id, repair, as.value, isChanged ? value : undefined)} />
        </>
      )}
    </Sheet>
  );
}

function Ways({ as, onChoose }: { as: As; onChoose: (as: As) => void }) {
  const text = words.letters;
  return (
    <fieldset class="ways">
      <legend>{text.as}</legend>
      {WAYS.map((one) => (
        <label key={one} class="check">
          <input type="radio" name="as" checked={as === one} onChange={() => onChoose(one)} />
          {text.ways[one]}
        </label>
      ))}
    </fieldset>
  );
}

function Next({ preview }: { preview: Schemas["Preview"] }) {
  const text = words.letters;
  return (
    <section class="next" aria-label={text.next}>
      <h3>{text.next}</h3>
      <ul>
        {preview.again.length > 0 && (
          <li>
            <Foreign text={text.begins(preview.again)} />
          </li>
        )}
        {preview.stops.length > 0 && (
          <li>
            <Foreign text={text.stops(preview.stops)} />
          </li>
        )}
        {preview.undo.length > 0 && (
          <li>
            <Foreign text={text.undone(preview.undo)} />
          </li>
        )}
        <li>{text.after(general.states[preview.state] ?? preview.state)}</li>
      </ul>
    </section>
  );
}

export function doingOf(id: string, repair: Repair, as: As, config: unknown): Doing {
  const path = `/api/v1/dead-letters/${encodeURIComponent(id)}/${repair}`;
  if (repair === "discard")
    return {
      command: ["dlq", "discard", id, "--as", as],
      method: "POST",
      path,
      body: { as },
      python: ["dead_letters.discard", [id], { as_: as }],
    };
  return {
    command: ["dlq", "requeue", id, ...(config === undefined ? [] : ["--config", write(config)])],
    method: "POST",
    path,
    body: config === undefined ? {} : { config },
    python: ["dead_letters.requeue", [id], { config }],
  };
}

interface About {
  readonly workflow: string | null;
  readonly node: string;
  readonly code: string | null;
}

/** Many at once: counted, then done with that count. If it is another one by then, nothing is done and the new one is shown. */
export function ManySheet({ repair, about, onClose }: { repair: Repair; about: About; onClose: () => void }) {
  const text = words.letters;
  const as = useSignal<As>("skip");
  const was = useSignal<number | undefined>(undefined);
  const result = useSignal<Schemas["ManyChanged"] | undefined>(undefined);
  const counted = useLoad(`${repair} ${about.node}`, (signal) => change(repair, about, as.value, null, signal));
  const count = counted.data.value?.matched;
  const code = about.code ?? text.noCode;
  const act = async () => {
    try {
      result.value = await change(repair, about, as.value, count ?? 0);
    } catch (error) {
      if (!(error instanceof Refused) || error.problem.status !== 409) throw error;
      was.value = count;
      counted.reload();
    }
  };
  const found = result.value;
  return (
    <Sheet
      title={
        count === undefined ? text.many.counting : text.many[repair](count, nodeName(about.workflow, about.node), code)
      }
      verb={text[repair]}
      harmful={repair === "discard"}
      onClose={onClose}
      onDo={act}
      whyNot={
        lacks("dead_letters:operate") ??
        (count === undefined ? text.many.counting : count === 0 ? text.many.none : undefined)
      }
      done={found ? <Done found={found} /> : undefined}
    >
      <p>
        {text.does[repair]} {text.many.text}
      </p>
      {count === undefined && counted.error.value === undefined && <Loading rows={1} />}
      {counted.error.value !== undefined && <Refusal error={counted.error.value} />}
      {was.value !== undefined && count !== undefined && !found && (
        <p class="why-not" role="alert">
          {text.many.changedCount(was.value, count)}
        </p>
      )}
      {repair === "discard" && !found && !isItem(about.workflow) && (
        <Ways as={as.value} onChoose={(next) => (as.value = next)} />
      )}
      {!found && count !== undefined && <CopyAs doing={manyDoing(repair, about, as.value, count)} />}
    </Sheet>
  );
}

export function manyDoing(repair: Repair, { workflow, node, code }: About, as: As, expected: number): Doing {
  const which = { workflow: workflow ?? undefined, node, code: code ?? undefined, expected };
  const isDiscard = repair === "discard";
  return {
    method: "POST",
    path: `/api/v1/dead-letters/${repair}`,
    body: isDiscard ? { ...which, as } : which,
    python: [`dead_letters.${repair}_many`, [], isDiscard ? { ...which, as_: as } : which],
  };
}

function change(
  repair: Repair,
  about: About,
  as: As,
  expected: number | null,
  signal?: AbortSignal,
): Promise<Schemas["ManyChanged"]> {
  const body = { ...about, run_id: null, expected };
  return repair === "requeue"
    ? call("POST /api/v1/dead-letters/requeue", { body, signal })
    : call("POST /api/v1/dead-letters/discard", { body: { ...body, as }, signal });
}

function Done({ found }: { found: Schemas["ManyChanged"] }) {
  const text = words.letters.many;
  return (
    <div role="status">
      <p>{text.done(found.done)}</p>
      {found.refused.length > 0 && (
        <>
          <p>{text.refused(found.refused.length)}</p>
          <ul>
            {found.refused.slice(0, 10).map((one) => (
              <li key={one.dead_letter_id}>
                <Foreign text={one.dead_letter_id} className="id" /> <Foreign text={one.message} />
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}
