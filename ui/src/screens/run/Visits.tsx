// Which visit of a node in a loop is looked at: the newest, until another one is chosen.
import type { Schemas } from "../../api/call.ts";
import { look } from "../../film/look.ts";
import { StateMark } from "../../kit/basics.tsx";
import { change, place } from "../../router.ts";
import { words } from "../../words/en.ts";
import { visits as text } from "../../words/node.ts";
import type { RunStore } from "./store.ts";

type Node = Schemas["Node"];

/** The visit that the address names, if the node has it and it is not the newest: that one is read as the node itself. */
export function chosenVisit(visits: readonly Node[]): Node | undefined {
  const wanted = Number(place.value.query.get("visit") ?? 0);
  return visits.slice(0, -1).find((one) => one.visit === wanted);
}

export function Visits({ store, node, visits }: { store: RunStore; node: string; visits: readonly Node[] }) {
  const newest = visits.at(-1);
  if (visits.length < 2 || !newest) return null;
  const shown = chosenVisit(visits) ?? newest;
  const index = visits.indexOf(shown);
  const choose = (one: Node | undefined) =>
    change({ visit: one && one !== newest ? String(one.visit) : undefined }, true);
  const seq = store.film.version.value ? store.film.film.lastOf(node, shown.visit) : undefined;
  return (
    <div class="visits" role="group" aria-label={text.label}>
      <span class="soft">{text.label}</span>
      <button type="button" aria-label={text.before} disabled={index === 0} onClick={() => choose(visits[index - 1])}>
        ‹
      </button>
      <select
        aria-label={text.label}
        value={String(shown.visit)}
        onChange={(event) => choose(visits.find((one) => String(one.visit) === event.currentTarget.value))}
      >
        {visits.toReversed().map((one) => {
          const say = one === newest ? text.newest : text.one;
          return (
            <option key={one.visit} value={String(one.visit)}>
              {say(words.states[one.state] ?? one.state, one.visit)}
            </option>
          );
        })}
      </select>
      <button
        type="button"
        aria-label={text.after}
        disabled={shown === newest}
        onClick={() => choose(visits[index + 1])}
      >
        ›
      </button>
      {shown !== newest && <StateMark state={shown.state} small />}
      {shown !== newest && seq !== undefined && store.at.value === undefined && (
        <button type="button" class="quiet" onClick={() => look(seq)}>
          {text.look}
        </button>
      )}
    </div>
  );
}
