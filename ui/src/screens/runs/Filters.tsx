// The filter of the list. Each choice changes the address, and the address changes the list.
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "../../kit/basics.tsx";
import { groupOf, MARKS } from "../../kit/states.ts";
import { change, go, href } from "../../router.ts";
import { onKeys } from "../../shell/keys.ts";
import { words } from "../../words/en.ts";
import { type Filter, isEmpty } from "./list.ts";

const STATES = ["running", "waiting", "paused", "failed", "completed", "cancelled", "rolled_back"];

export function Filters({ filter }: { filter: Filter }) {
  const first = useRef<HTMLInputElement>(null);
  useEffect(() => onKeys({ "/": () => first.current?.focus() }), []);
  const text = words.runs.filter;
  const toggle = (state: string) => {
    // The server takes `waiting` alone: it is a part of `running`.
    const others = filter.state.filter((one) => one !== state && (one === "waiting") === (state === "waiting"));
    change({ state: filter.state.includes(state) ? others : [...others, state] });
  };
  return (
    <search class="filters" aria-label={text.label}>
      <div class="chips" role="group" aria-label={text.state}>
        {STATES.map((state) => (
          <button
            key={state}
            type="button"
            class="chip"
            data-group={groupOf(state)}
            aria-pressed={filter.state.includes(state)}
            onClick={() => toggle(state)}
          >
            <Icon path={MARKS[groupOf(state)]} className="mark" />
            {words.states[state]}
          </button>
        ))}
      </div>
      <div class="fields">
        <Field
          input={first}
          label={text.workflow}
          hint={text.workflowHint}
          value={filter.workflow}
          onChange={(value) => change({ workflow: value })}
        />
        <Field
          label={text.tag}
          hint={text.tagHint}
          value={filter.tag}
          isGood={(value) => value === "" || /^[^=]+=/.test(value)}
          onChange={(value) => change({ tag: value })}
        />
        <label>
          <span>{text.since}</span>
          <select value={filter.since} onChange={(event) => change({ since: event.currentTarget.value })}>
            {Object.entries(text.sinces).map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
            {!(filter.since in text.sinces) && <option value={filter.since}>{filter.since}</option>}
          </select>
        </label>
        <label class="check">
          <input
            type="checkbox"
            checked={filter.children}
            onChange={(event) => change({ children: event.currentTarget.checked ? "1" : undefined })}
          />
          <span>{text.children}</span>
        </label>
        {!isEmpty(filter) && (
          <button type="button" class="quiet" onClick={() => go(href("/runs"))}>
            {text.clear}
          </button>
        )}
      </div>
    </search>
  );
}

interface Given {
  label: string;
  hint: string;
  value: string;
  onChange: (value: string) => void;
  isGood?: (value: string) => boolean;
  input?: { current: HTMLInputElement | null };
}

function Field({ label, hint, value, onChange, isGood, input }: Given) {
  const take = (event: { currentTarget: HTMLInputElement }) => {
    const found = event.currentTarget.value.trim();
    event.currentTarget.setCustomValidity(isGood && !isGood(found) ? hint : "");
    if (event.currentTarget.reportValidity() && found !== value) onChange(found);
  };
  return (
    <label>
      <span>{label}</span>
      <input
        ref={input}
        type="search"
        key={value}
        defaultValue={value}
        placeholder={hint}
        autocomplete="off"
        spellcheck={false}
        onChange={take}
        onInput={(event) => event.currentTarget.setCustomValidity("")}
      />
    </label>
  );
}
