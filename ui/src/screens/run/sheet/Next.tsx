// What would happen next, as the server told it for a dry run.
import type { Schemas } from "../../../api/call.ts";
import { Foreign } from "../../../kit/basics.tsx";
import { words } from "../../../words/actions.ts";
import { words as general } from "../../../words/en.ts";
import type { ActionName } from "../wish.ts";

export type Preview = Schemas["Preview"];
const SHOWN = 20;

export function Next({ action, preview, now }: { action: ActionName; preview: Preview; now: string }) {
  const text = words.next;
  const { again, undo, stops, totals } = preview;
  const isUndoing = action === "rollback" || action === "cancel" || action === "force";
  return (
    <section class="next" aria-label={text.title}>
      <h3>{text.title}</h3>
      <ul>
        {totals.again > 0 && (
          <li>
            <Foreign text={(action === "retry" ? text.againRetry : text.again)(again, totals.again)} />
          </li>
        )}
        {totals.kept > 0 && !isUndoing && <li>{text.kept(totals.kept)}</li>}
        {totals.stops > 0 && (
          <li>
            <Foreign
              text={(action === "pause" ? text.held : now === "compensating" ? text.notUndone : text.stops)(
                stops,
                totals.stops,
              )}
            />
          </li>
        )}
        {totals.stops === 0 && (action === "cancel" || action === "force") && <li>{text.nothing}</li>}
        {totals.undo > 0 && (
          <li>
            {text.undo}
            <ol>
              {undo.slice(0, SHOWN).map((node) => (
                <li key={node}>
                  <Foreign text={node} />
                </li>
              ))}
            </ol>
            {totals.undo > SHOWN && text.more(totals.undo - SHOWN)}
          </li>
        )}
        {totals.undo === 0 && isUndoing && now !== "compensating" && <li>{text.undoNone}</li>}
        {action !== "rerun" && <li>{text.state(general.states[preview.state] ?? preview.state)}</li>}
      </ul>
    </section>
  );
}
