// A sheet that asks before something is done: what it does, what follows, a reason, and a button named by the verb.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { Refused, silentSince } from "../api/call.ts";
import { words } from "../words/actions.ts";
import { words as general } from "../words/en.ts";
import { Foreign } from "./basics.tsx";

const NO_CLICK_MS = 300;

interface Asked {
  readonly title: string;
  /** The verb on the button. */
  readonly verb: string;
  /** What the button says that does nothing, where "Close" could be mistaken for the verb. */
  readonly keep?: string | undefined;
  readonly onClose: () => void;
  /** Do it. What it throws is shown, and the sheet stays. */
  readonly onDo: () => Promise<void>;
  /** Why it cannot be done now; then the button is off, and says so. */
  readonly whyNot?: string | undefined;
  readonly harmful?: boolean;
  readonly children?: ComponentChildren;
  /** What stands instead of the buttons once it is done. */
  readonly done?: ComponentChildren;
}

export function Sheet({ title, verb, keep, onClose, onDo, whyNot, harmful = false, children, done }: Asked) {
  const element = useRef<HTMLDialogElement>(null);
  const ready = useSignal(false);
  const busy = useSignal(false);
  const error = useSignal<unknown>(undefined);
  const id = useId();
  useEffect(() => {
    const back = document.activeElement;
    element.current?.showModal();
    const timer = setTimeout(() => {
      ready.value = true;
    }, NO_CLICK_MS);
    return () => {
      clearTimeout(timer);
      if (back instanceof HTMLElement && back.isConnected) back.focus();
    };
  }, []);
  const off = whyNot ?? (silentSince.value === undefined ? undefined : words.sheet.silent);
  const act = async (event: SubmitEvent) => {
    event.preventDefault();
    // A click that was meant for what lay under the sheet does nothing.
    if (busy.value || off !== undefined || !ready.value) return;
    busy.value = true;
    error.value = undefined;
    try {
      await onDo();
    } catch (caught) {
      error.value = caught;
    } finally {
      busy.value = false;
    }
  };
  return (
    <dialog ref={element} class="sheet" data-ready={ready.value} onClose={onClose} aria-labelledby={`${id}-title`}>
      <form onSubmit={act} noValidate>
        <header>
          <h2 id={`${id}-title`}>{title}</h2>
          <button type="button" class="quiet" onClick={() => element.current?.close()}>
            {done ? general.close : (keep ?? general.close)}
          </button>
        </header>
        <div class="sheet-body">{children}</div>
        {error.value !== undefined && <Refusal error={error.value} />}
        {done ? (
          <footer>
            <div class="grow">{done}</div>
            <button type="button" onClick={() => element.current?.close()}>
              {general.close}
            </button>
          </footer>
        ) : (
          <footer>
            {off !== undefined && (
              <p class="grow why-not" id={`${id}-off`}>
                <Foreign text={off} />
              </p>
            )}
            <button
              type="submit"
              class={harmful ? "main harmful" : "main"}
              aria-disabled={off !== undefined || busy.value}
              aria-describedby={off === undefined ? undefined : `${id}-off`}
            >
              {busy.value ? words.sheet.busy : verb}
            </button>
          </footer>
        )}
      </form>
    </dialog>
  );
}

/** What the server refused, in its words; with each problem at its place. */
export function Refusal({ error }: { error: unknown }) {
  const problem = error instanceof Refused ? error.problem : undefined;
  return (
    <div class="refusal" role="alert">
      <p>
        {problem ? (
          <Foreign text={problem.detail} />
        ) : error instanceof SyntaxError ? (
          <Foreign text={error.message} />
        ) : (
          general.problem.unreachable
        )}
      </p>
      {problem?.problems && problem.problems.length > 1 && (
        <ul>
          {problem.problems.map((one) => (
            <li key={one.path + one.message}>
              <code>
                <Foreign text={one.path} />
              </code>{" "}
              <Foreign text={one.message} />
            </li>
          ))}
        </ul>
      )}
      {problem && (
        <p class="soft">
          {general.problem.code} <code>{problem.code}</code>
        </p>
      )}
    </div>
  );
}

/** The attributes by which a control belongs to its label and its hint. */
export interface Named {
  readonly id: string;
  readonly "aria-describedby": string | undefined;
}

export function Field({
  label,
  hint,
  children,
}: {
  label: ComponentChildren;
  hint?: ComponentChildren;
  children: (named: Named) => ComponentChildren;
}) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, "aria-describedby": hint ? `${id}-hint` : undefined })}
      {hint && (
        <span class="soft" id={`${id}-hint`}>
          {hint}
        </span>
      )}
    </div>
  );
}
