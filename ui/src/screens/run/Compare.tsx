// What has changed in the run since an event: in the run itself, and node by node.
import { call, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Dialog, Foreign, Loading } from "../../kit/basics.tsx";
import { Json } from "../../kit/Json.tsx";
import { Problem } from "../../kit/problem.tsx";
import { words } from "../../words/en.ts";

type Difference = Schemas["Difference"];

export function Compare({ runId, at, onClose }: { runId: string; at: number; onClose: () => void }) {
  const text = words.run.compare;
  const loaded = useLoad(`${runId} ${at}`, (signal) =>
    call("GET /api/v1/runs/{run_id}/diff", { path: { run_id: runId }, query: { at }, signal }),
  );
  const found = loaded.data.value;
  const nodes = Object.entries(found?.nodes ?? {}).filter(([, changes]) => changes.length > 0);
  return (
    <Dialog title={text.title(at)} onClose={onClose}>
      {loaded.error.value !== undefined ? (
        <Problem error={loaded.error.value} onRetry={loaded.reload} />
      ) : !found ? (
        <Loading rows={4} />
      ) : found.run.length + nodes.length === 0 ? (
        <p class="soft">{text.none}</p>
      ) : (
        <div class="compare">
          {found.run.length > 0 && <Part title={text.run} changes={found.run} />}
          {nodes.map(([node, changes]) => (
            <Part key={node} title={node} changes={changes} />
          ))}
        </div>
      )}
    </Dialog>
  );
}

function Part({ title, changes }: { title: string; changes: readonly Difference[] }) {
  const text = words.run.compare;
  return (
    <section>
      <h3>
        <Foreign text={title} />
      </h3>
      <ul>
        {changes.map((one) => (
          <li key={one.path}>
            <code>
              <Foreign text={one.path} />
            </code>{" "}
            <span class="soft">{text.changes[one.change] ?? one.change}</span>
            {one.before !== undefined && (
              <div class="then">
                <span class="soft">{text.before}</span> <Json value={one.before} />
              </div>
            )}
            {one.after !== undefined && (
              <div class="then">
                <span class="soft">{text.after}</span> <Json value={one.after} />
              </div>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
