// What the sheets of triggers are made of.
import type { Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { Field } from "../../../kit/Sheet.tsx";
import { href } from "../../../router.ts";
import { words as actions } from "../../../words/actions.ts";
import { words } from "../../../words/triggers.ts";
import { readJson } from "../../run/sheet/json.ts";

export function Next({ lines }: { lines: readonly ComponentChildren[] }) {
  return (
    <section class="next" aria-label={words.nextTitle}>
      <h3>{words.nextTitle}</h3>
      <ul>
        {lines.map((one, index) => (
          <li key={index}>{one}</li>
        ))}
      </ul>
    </section>
  );
}

/** Inputs as JSON: an object, or nothing. */
export function readInputs(text: string): { readonly value?: Record<string, unknown>; readonly problem?: string } {
  const read = readJson(text);
  if ("problem" in read) return { problem: read.problem };
  const { value } = read;
  if (value === undefined) return {};
  if (value === null || typeof value !== "object" || Array.isArray(value)) return { problem: words.fire.object };
  return { value: value as Record<string, unknown> };
}

interface Typed {
  readonly label: string;
  readonly hint: string | undefined;
  readonly text: Signal<string>;
  readonly invalid: boolean;
}

export function JsonField({ label, hint, text, invalid }: Typed) {
  return (
    <Field label={label} hint={hint}>
      {(named) => (
        <textarea
          {...named}
          class="code"
          rows={Math.min(12, Math.max(3, text.value.split("\n").length))}
          spellcheck={false}
          aria-invalid={invalid}
          value={text.value}
          onInput={(event) => (text.value = event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

export function ReasonField({ reason }: { reason: Signal<string> }) {
  return (
    <Field label={actions.sheet.reason} hint={actions.sheet.reasonHint}>
      {(named) => (
        <input
          {...named}
          type="text"
          maxLength={2000}
          value={reason.value}
          onInput={(event) => (reason.value = event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

export function RunLink({ run }: { run: string }) {
  return <a href={href(`/runs/${encodeURIComponent(run)}`)}>{words.done.look}</a>;
}
