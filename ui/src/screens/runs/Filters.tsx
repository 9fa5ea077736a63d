// The filter of the list: states as chips, and everything as text. Each choice changes the address, and the address changes the list.
import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { call } from "../../api/call.ts";
import { Icon } from "../../kit/basics.tsx";
import { groupOf, MARKS } from "../../kit/states.ts";
import { change } from "../../router.ts";
import { onKeys } from "../../shell/keys.ts";
import { words } from "../../words/en.ts";
import { runs as more } from "../../words/runs.ts";
import { type Filter, fromText, isEmpty, KEYS, readFilter, toQuery, toText } from "./filter.ts";

const STATES = ["running", "waiting", "paused", "failed", "completed", "cancelled", "rolled_back"];

export function Filters({ filter }: { filter: Filter }) {
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
        <Typed filter={filter} />
        <div class="joined">
          <select
            aria-label={more.whenLabel}
            value={filter.byEnd ? "ended" : "started"}
            onChange={(event) => change({ "by-end": event.currentTarget.value === "ended" ? "1" : undefined })}
          >
            {Object.entries(more.when).map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
          <select
            aria-label={text.since}
            value={filter.since}
            onChange={(event) => change({ since: event.currentTarget.value, until: undefined })}
          >
            {Object.entries(text.sinces).map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
            {!(filter.since in text.sinces) && <option value={filter.since}>{filter.since}</option>}
          </select>
        </div>
        <select
          aria-label={more.sort}
          value={filter.sort}
          disabled={filter.byEnd}
          onChange={(event) => change({ sort: event.currentTarget.value })}
        >
          {Object.entries(more.sorts).map(([value, name]) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </select>
        <label class="check">
          <input
            type="checkbox"
            checked={filter.children}
            onChange={(event) => change({ children: event.currentTarget.checked ? "1" : undefined })}
          />
          <span>{text.children}</span>
        </label>
        {!isEmpty(filter) && (
          <button
            type="button"
            class="quiet"
            onClick={() => change({ ...toQuery(readFilter(new URLSearchParams())), view: undefined })}
          >
            {text.clear}
          </button>
        )}
      </div>
    </search>
  );
}

/** What completes the word that is typed: the keys, and the names that the server knows. */
async function complete(typed: string): Promise<string[]> {
  const at = typed.lastIndexOf(" ") + 1;
  const before = typed.slice(0, at);
  const [, key = "", part = ""] = /^(?:([a-z-]+):)?(.*)$/.exec(typed.slice(at)) ?? [];
  if (key === "state")
    return Object.keys(words.states)
      .slice(0, 9)
      .map((one) => `${before}state:${one}`);
  if (key === "error") {
    const found = await call("GET /api/v1/runs/counts", { query: { group: "error" } });
    return (found.groups ?? []).filter((one) => one.name).map((one) => `${before}error:${one.name}`);
  }
  const keys = key ? [] : KEYS.filter((one) => one.startsWith(part)).map((one) => `${before}${one}:`);
  if (key && key !== "workflow") return [];
  const found = await call("GET /api/v1/workflows", { query: { q: part || undefined, limit: 8 } });
  return [...found.items.map((one) => `${before}workflow:${one.name}`), ...keys];
}

function Typed({ filter }: { filter: Filter }) {
  const input = useRef<HTMLInputElement>(null);
  const offered = useSignal<readonly string[]>([]);
  const shown = toText(filter);
  useLayoutEffect(() => onKeys({ "/": () => input.current?.focus() }), []);
  const take = () => {
    const field = input.current;
    if (!field) return;
    const found = fromText(field.value, filter);
    const wrong =
      "key" in found
        ? more.badKey(found.key, KEYS)
        : "tag" in found && !("state" in found)
          ? more.badTag(found.tag)
          : "";
    field.setCustomValidity(wrong);
    if (field.reportValidity() && toText(found as Filter) !== shown) change(toQuery(found as Filter));
  };
  const offer = async (typed: string) => {
    input.current?.setCustomValidity("");
    offered.value = await complete(typed).catch(() => []); // without an answer nothing is offered
  };
  return (
    <label class="typed">
      <span class="hidden">{more.filter}</span>
      <input
        ref={input}
        type="search"
        key={shown}
        defaultValue={shown}
        placeholder={more.hint}
        list="filter-completion"
        autocomplete="off"
        spellcheck={false}
        onChange={take}
        onFocus={(event) => void offer(event.currentTarget.value)}
        onInput={(event) => void offer(event.currentTarget.value)}
      />
      <datalist id="filter-completion">
        {offered.value.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
    </label>
  );
}
