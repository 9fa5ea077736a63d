// Search by the keyboard (⌘K): what is known here at once, what the server knows a moment later.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Dialog, Foreign } from "../kit/basics.tsx";
import { operators } from "../words/operators.ts";
import { type Finding, findHere, findThere, follow, merge } from "./finding.ts";

const PAUSE_MS = 100;

export default function Palette({ onClose }: { onClose: () => void }) {
  const text = operators.search;
  return (
    <Dialog title={text.title} onClose={onClose}>
      <Search onChosen={onClose} />
    </Dialog>
  );
}

/** The field and what was found; also the whole of `/search`. */
export function Search({ begin = "", onChosen }: { begin?: string; onChosen?: () => void }) {
  const text = operators.search;
  const asked = useSignal(begin);
  const there = useSignal<readonly Finding[]>([]);
  const busy = useSignal(false);
  const failed = useSignal(false);
  const chosen = useSignal(0);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    queueMicrotask(() => field.current?.focus()); // after the dialog has taken the focus
  }, []);
  useEffect(() => {
    const aborter = new AbortController();
    const query = asked.value;
    busy.value = query.trim() !== "" && !query.trim().startsWith(">");
    there.value = [];
    failed.value = false;
    chosen.value = 0;
    const timer = setTimeout(() => {
      findThere(query, aborter.signal).then(
        (found) => {
          there.value = found;
          busy.value = false;
        },
        () => {
          if (aborter.signal.aborted) return;
          busy.value = false;
          failed.value = true;
        },
      );
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      aborter.abort();
    };
  }, [asked.value]);
  const found = merge(findHere(asked.value), there.value);
  const at = Math.min(chosen.value, found.length - 1);
  const choose = (one: Finding | undefined, inNewTab: boolean) => {
    if (!one) return;
    follow(one, inNewTab);
    if (!inNewTab) onChosen?.();
  };
  const press = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step && found.length) chosen.value = (at + step + found.length) % found.length;
    else if (event.key === "Enter") choose(found[at], event.metaKey || event.ctrlKey);
    else return;
    event.preventDefault();
  };
  return (
    <div class="palette">
      <input
        ref={field}
        type="search"
        // biome-ignore lint/a11y/noRedundantRoles: without a list of the browser it has the role of a search box
        role="combobox"
        list={undefined}
        aria-label={text.title}
        aria-expanded={found.length > 0}
        aria-controls="found"
        aria-activedescendant={found.length ? `found-${at}` : undefined}
        autocomplete="off"
        spellcheck={false}
        placeholder={text.hint}
        value={asked.value}
        onInput={(event) => {
          asked.value = event.currentTarget.value;
        }}
        onKeyDown={press}
      />
      <ul id="found" role="listbox" aria-label={text.found}>
        {found.map((one, index) => (
          <li
            key={`${one.kind} ${one.to ?? one.label}`}
            id={`found-${index}`}
            role="option"
            aria-selected={index === at}
            ref={(element) => {
              if (index === at) element?.scrollIntoView({ block: "nearest" });
            }}
            onMouseMove={() => {
              chosen.value = index;
            }}
            onClick={(event) => choose(one, event.metaKey || event.ctrlKey)}
            onKeyDown={press}
          >
            <span class="kind">{text.kinds[one.kind]}</span>
            <Foreign text={one.label} />
            {one.more && (
              <span class="soft">
                <Foreign text={one.more} />
              </span>
            )}
          </li>
        ))}
      </ul>
      <p class="soft small" role="status">
        {failed.value ? text.failed : busy.value ? text.busy : found.length === 0 ? text.none : text.keys}
      </p>
    </div>
  );
}
