// What the journal says after something was asked: followed until the run moved, or for ten seconds.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { call, type Schemas } from "../../../api/call.ts";
import { useLoad } from "../../../api/load.ts";
import { Foreign } from "../../../kit/basics.tsx";
import { words } from "../../../words/actions.ts";
import type { RunStore } from "../store.ts";

type RunEvent = Schemas["Event"];

const PATIENCE_MS = 10_000;
const SHOWN = 6;

function say(event: RunEvent): string | undefined {
  const text = words.followed;
  if (event.type === "run.retried") {
    const { generation } = event.data as { generation?: number };
    return text.retried(generation ?? 1);
  }
  const what = words.happened[event.type];
  if (!what) return undefined;
  return event.node ? text.node(event.node, what) : what;
}

export function Followed({ store, after }: { store: RunStore; after: number }) {
  const late = useSignal(false);
  const shown = useRef<readonly string[]>([]);
  useEffect(() => {
    const timer = setTimeout(() => {
      late.value = true;
    }, PATIENCE_MS);
    return () => clearTimeout(timer);
  }, []);
  const found = useLoad(`${store.readings.value} ${late.value}`, (signal) =>
    call("GET /api/v1/runs/{run_id}/events", {
      path: { run_id: store.runId },
      query: { after, limit: 50, outputs: false },
      signal,
    }),
  );
  if (found.data.value) shown.current = found.data.value.items.map(say).filter((one) => one !== undefined);
  const said = shown.current;
  const why = late.value && said.length < 2 ? [...store.why.value.values()][0] : undefined;
  return (
    <div class="followed" role="status">
      {said.length > 0 && (
        <ol aria-label={words.followed.title}>
          {said.slice(0, SHOWN).map((text, index) => (
            <li key={`${index} ${text}`}>
              <Foreign text={text} />
            </li>
          ))}
        </ol>
      )}
      {why !== undefined ? (
        <p>
          <Foreign text={words.followed.acceptedWaits(why)} />
        </p>
      ) : (
        said.length === 0 && <p>{late.value ? words.followed.accepted : words.followed.waiting}</p>
      )}
    </div>
  );
}
