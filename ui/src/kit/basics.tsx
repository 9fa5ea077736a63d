// The small parts that every screen is made of.
import { useComputed, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { now } from "../api/call.ts";
import { words } from "../words/en.ts";
import { groupOf, MARKS } from "./states.ts";
import { isPlain, piecesOf } from "./text.ts";
import { ticks } from "./ticks.ts";
import { exactTime, relativeTime, shownDuration, shownTime, zone } from "./time.ts";

export function Icon({ path, className = "icon" }: { path: string; className?: string }) {
  return (
    <svg class={className} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={path} />
    </svg>
  );
}

export function StateMark({
  state,
  waiting = false,
  small = false,
}: {
  state: string;
  waiting?: boolean;
  small?: boolean;
}) {
  const shown = waiting && state === "running" ? "waiting" : state;
  const group = groupOf(shown);
  return (
    <span class={small ? "state small" : "state"} data-group={group}>
      <Icon path={MARKS[group]} className="mark" />
      <span>{words.states[shown] ?? shown}</span>
    </span>
  );
}

/** Text that came from elsewhere. It is never more than text, and what cannot be seen in it is named. */
export function Foreign({ text, className }: { text: string; className?: string }) {
  if (isPlain(text)) return <bdi class={className}>{text}</bdi>;
  return (
    <bdi class={className}>
      {piecesOf(text).map((piece, index) =>
        piece.odd ? (
          <span key={index} class="odd">
            {piece.text}
          </span>
        ) : (
          piece.text
        ),
      )}
    </bdi>
  );
}

/** A moment: how long ago where that is less than a day, else the time; exactly on hover and for screen readers. */
export function Moment({ at }: { at: number | null | undefined }) {
  const text = useComputed(() => {
    if (at === null || at === undefined) return words.time.none;
    const moment = ticks.value && now();
    return Math.abs(moment - at) < 86_400 ? relativeTime(at, moment) : shownTime(at, zone.value, moment);
  });
  if (at === null || at === undefined) return <span class="soft">{text}</span>;
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={exactTime(at, zone.value)}>
      {text}
    </time>
  );
}

/** How long something took, or has taken until now. */
export function Duration({ from, to }: { from: number | null | undefined; to: number | null | undefined }) {
  const text = useComputed(() => {
    if (from === null || from === undefined) return "";
    return shownDuration((to ?? (ticks.value && now())) - from);
  });
  return <span class="number">{text}</span>;
}

export function CopyButton({ text, label = words.copy }: { text: string; label?: string }) {
  const done = useSignal(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      done.value = true;
      setTimeout(() => {
        done.value = false;
      }, 1500);
    } catch {
      // a browser may forbid it; the text stands beside the button
    }
  };
  return (
    <button type="button" class="quiet" onClick={copy} aria-live="polite">
      {done.value ? words.copied : label}
    </button>
  );
}

/** Nothing for a moment, then rows of the height of what comes; after ten seconds words and a way out. */
export function Loading({ rows = 8, onStop }: { rows?: number; onStop?: () => void }) {
  const stage = useSignal(0);
  useEffect(() => {
    const timers = [
      setTimeout(() => {
        stage.value = 1;
      }, 150),
      setTimeout(() => {
        stage.value = 2;
      }, 10_000),
    ];
    return () => timers.forEach(clearTimeout);
  }, []);
  if (stage.value === 0) return <div class="loading" aria-busy="true" />;
  return (
    <div class="loading" role="status" aria-busy="true" aria-label={words.loading.label}>
      {Array.from({ length: rows }, (_, index) => (
        <div key={`row ${index}`} class="skeleton" />
      ))}
      {stage.value === 2 && (
        <p>
          {words.loading.long}{" "}
          {onStop && (
            <button type="button" onClick={onStop}>
              {words.cancel}
            </button>
          )}
        </p>
      )}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Command({ text }: { text: string }) {
  return (
    <div class="command">
      <code>{text}</code>
      <CopyButton text={text} />
    </div>
  );
}

/** A native dialog: it takes the focus, gives it back, and closes with Escape. */
export function Dialog({
  title,
  onClose,
  children,
}: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
}) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    element.current?.showModal();
  }, []);
  return (
    <dialog ref={element} onClose={onClose} aria-labelledby="dialog-title">
      <header>
        <h2 id="dialog-title">{title}</h2>
        <button type="button" class="quiet" onClick={() => element.current?.close()}>
          {words.close}
        </button>
      </header>
      {children}
    </dialog>
  );
}
