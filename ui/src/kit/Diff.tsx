// What differs between two values, a line for each place: what was there, and what is there now.
import { write } from "../api/exact.ts";
import { words } from "../words/actions.ts";
import { Foreign } from "./basics.tsx";
import type { Difference } from "./diff.ts";
import { cut } from "./text.ts";

const LONGEST = 300;

export function Diff({ found, label = words.diff.label }: { found: readonly Difference[]; label?: string }) {
  if (found.length === 0) return <p class="soft diff-none">{words.diff.none}</p>;
  return (
    <table class="diff" aria-label={label}>
      <thead class="hidden">
        <tr>
          <th scope="col">{words.diff.place}</th>
          <th scope="col">{words.diff.before}</th>
          <th scope="col">{words.diff.after}</th>
        </tr>
      </thead>
      <tbody>
        {found.map((one) => (
          <tr key={one.path} data-change={one.change}>
            <th scope="row">
              <Foreign text={one.path || "/"} className="id" />
            </th>
            <td>{one.change !== "added" && <Side value={one.before} mark="−" gone />}</td>
            <td>{one.change !== "removed" && <Side value={one.after} mark="+" />}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Side({ value, mark, gone = false }: { value: unknown; mark: string; gone?: boolean }) {
  const text = cut(write(value), LONGEST);
  return (
    <span class={gone ? "was" : "is"}>
      <span aria-hidden="true">{mark} </span>
      <Foreign text={text} className="id" />
    </span>
  );
}
