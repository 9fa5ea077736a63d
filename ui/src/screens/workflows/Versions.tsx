// The versions of a workflow: who made each, when and why, what still runs on it; any two are compared.
import { useSignal } from "@preact/signals";
import { call } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Foreign, Loading, Moment } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { change, href } from "../../router.ts";
import { number } from "../../words/en.ts";
import { words } from "../../words/workflows.ts";
import { pathTo } from "./Workflow.tsx";

export function Versions({ name }: { name: string }) {
  const text = words.versions;
  const before = useSignal(0);
  const after = useSignal(0);
  const loaded = useLoad(name, (signal) =>
    call("GET /api/v1/workflows/{name}/versions", { path: { name }, query: { limit: 500 }, signal }),
  );
  const stats = useLoad(name, (signal) => call("GET /api/v1/workflows/{name}/stats", { path: { name }, signal }));
  if (loaded.error.value !== undefined) return <Problem error={loaded.error.value} onRetry={loaded.reload} />;
  const found = loaded.data.value;
  if (!found) return <Loading rows={6} />;
  const open = new Map(stats.data.value?.versions.map((one) => [one.version, one.open]));
  const newest = found.items[0]?.version ?? 0;
  const to = after.value || newest;
  const from = before.value || (found.items[1]?.version ?? 0);
  return (
    <>
      <div class="scroller" role="group" aria-label={words.tabs.versions} tabIndex={0}>
        <table class="plain-table">
          <thead>
            <tr>
              <th scope="col">{text.columns.version}</th>
              <th scope="col">{text.columns.at}</th>
              <th scope="col" class="wide-only">
                {text.columns.by}
              </th>
              <th scope="col" class="wide-only">
                {text.columns.reason}
              </th>
              <th scope="col" class="right">
                {text.columns.open}
              </th>
              <th scope="col">{text.columns.compare}</th>
            </tr>
          </thead>
          <tbody>
            {found.items.map((one) => (
              <tr key={one.version}>
                <td>
                  <button
                    type="button"
                    class="quiet"
                    onClick={() => change({ version: String(one.version), tab: undefined })}
                  >
                    {words.versionOf(one.version)}
                  </button>
                </td>
                <td>
                  <Moment at={one.registered_at} />
                </td>
                <td class="wide-only">
                  <Foreign text={one.by} />
                </td>
                <td class="wide-only">
                  {one.reason ? <Foreign text={one.reason} /> : <span class="soft">{words.noReason}</span>}
                </td>
                <td class="right number">{number(open.get(one.version) ?? 0)}</td>
                <td class="compare-cell">
                  <label class="check">
                    <input
                      type="radio"
                      name="before"
                      aria-label={text.before(one.version)}
                      checked={from === one.version}
                      onChange={() => (before.value = one.version)}
                    />
                    {text.from}
                  </label>
                  <label class="check">
                    <input
                      type="radio"
                      name="after"
                      aria-label={text.after(one.version)}
                      checked={to === one.version}
                      onChange={() => (after.value = one.version)}
                    />
                    {text.to}
                  </label>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {from ? (
        <p>
          <a class="button" href={href(pathTo(name, "/diff"), { before: String(from), after: String(to) })}>
            {text.compare}
          </a>
        </p>
      ) : (
        <p class="soft">{text.one}</p>
      )}
    </>
  );
}
