// The beginning: which screen the address means, each in a file of its own that is loaded when it is first shown.
import { useSignal } from "@preact/signals";
import { type ComponentType, render } from "preact";
import { useEffect } from "preact/hooks";
import { needsLogin } from "./api/call.ts";
import { Loading } from "./kit/basics.tsx";
import { Problem } from "./kit/problem.tsx";
import { startTicks } from "./kit/ticks.ts";
import { go, href, listen, match, place } from "./router.ts";
import Home from "./screens/home/Home.tsx";
import Login from "./screens/login/Login.tsx";
import Runs from "./screens/runs/Runs.tsx";
import { readBoot, staleBuild } from "./shell/boot.ts";
import { listenToKeys } from "./shell/keys.ts";
import { Shell } from "./shell/Shell.tsx";
import { words } from "./words/en.ts";

type Names = Readonly<Record<string, string>>;
type Screen = ComponentType<{ names: Names }>;

const SCREENS: readonly (readonly [string, () => Promise<{ default: Screen }>])[] = [
  ["/", () => Promise.resolve({ default: Home })],
  ["/runs", () => Promise.resolve({ default: Runs })],
  ["/login", () => Promise.resolve({ default: Login })],
  ["/welcome", () => import("./screens/welcome/Page.tsx")],
  ["/workers", () => import("./screens/workers/Workers.tsx")],
  ["/queues/{queue}", () => import("./screens/workers/Workers.tsx")],
  ["/triggers", () => import("./screens/triggers/Triggers.tsx")],
  ["/triggers/{name}", () => import("./screens/triggers/Triggers.tsx")],
  ["/agents", () => import("./screens/agents/Agents.tsx")],
  ["/assets", () => import("./screens/assets/Assets.tsx")],
  ["/costs", () => import("./screens/costs/Costs.tsx")],
  ["/node-types/{name}", () => import("./screens/nodetypes/NodeType.tsx")],
  ["/schedules", () => import("./screens/triggers/Calendar.tsx")],
  ["/search", () => import("./screens/search/Search.tsx")],
  ["/admin", () => import("./screens/admin/Admin.tsx")],
  ["/admin/{part}", () => import("./screens/admin/Admin.tsx")],
  ["/settings", () => import("./screens/settings/Settings.tsx")],
  ["/runs/{run_id}", () => import("./screens/run/Run.tsx")],
  ["/approvals", () => import("./screens/approvals/Approvals.tsx")],
  ["/approvals/{approval_id}", () => import("./screens/approvals/Approvals.tsx")],
  ["/dead-letters", () => import("./screens/letters/Letters.tsx")],
  ["/dead-letters/{dead_letter_id}", () => import("./screens/letters/Letters.tsx")],
  ["/workflows", () => import("./screens/workflows/Workflows.tsx")],
  ["/runs/{run_id}/print", () => import("./screens/print/Print.tsx")],
  ["/runs/{run_id}/edit", () => import("./screens/editor/LivePatch.tsx")],
  ["/workflows/new", () => import("./screens/editor/Editor.tsx")],
  ["/workflows/{name}/edit", () => import("./screens/editor/Editor.tsx")],
  ["/workflows/{name}", () => import("./screens/workflows/Workflow.tsx")],
  ["/workflows/{name}/diff", () => import("./screens/workflows/Diff.tsx")],
  ["/workflows/{name}/start", () => import("./screens/workflows/Start.tsx")],
];

/** What is small and seen first comes with the page; the others when they are first shown. */
const loaded = new Map<string, Screen>([
  ["/", Home],
  ["/runs", Runs],
  ["/login", Login],
]);

function Lazy({ pattern, names, load }: { pattern: string; names: Names; load: () => Promise<{ default: Screen }> }) {
  const error = useSignal<unknown>(undefined);
  const ready = useSignal(0);
  const Found = loaded.get(pattern);
  useEffect(() => {
    if (loaded.has(pattern)) return;
    load().then(
      (found) => {
        loaded.set(pattern, found.default);
        ready.value += 1;
      },
      (caught: unknown) => {
        // The file is gone where another version was deployed; then the page is to be loaded anew.
        error.value = caught;
        void readBoot().catch(() => {});
      },
    );
  }, [pattern]);
  if (Found) return <Found names={names} />;
  if (error.value !== undefined && !staleBuild.value)
    return <Problem error={error.value} onRetry={() => location.reload()} />;
  return <Loading key={ready.value} />;
}

function App() {
  const { path } = place.value;
  useEffect(() => {
    if (!needsLogin.value || path === "/login") return;
    const next = path + (place.peek().query.size ? `?${place.peek().query}` : "");
    go(href("/login", { next: path === "/" ? undefined : next }), { replace: true });
  }, [needsLogin.value, path]);
  for (const [pattern, load] of SCREENS) {
    const names = match(pattern, path);
    if (names) return <Lazy key={pattern} pattern={pattern} names={names} load={load} />;
  }
  return (
    <section class="screen">
      <div class="empty">
        <h1>{words.noScreen.title}</h1>
        <p>
          <a href={href("/")}>{words.noScreen.next}</a>
        </p>
      </div>
    </section>
  );
}

listen();
listenToKeys();
startTicks();
void readBoot().catch(() => {}); // a server that does not answer is told of by the banner
render(
  <Shell>
    <App />
  </Shell>,
  document.getElementById("app")!,
);
