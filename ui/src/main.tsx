// The beginning: which screen the address means, each in a file of its own that is loaded when it is first shown.
import { useSignal } from "@preact/signals";
import { type ComponentType, render } from "preact";
import { useEffect } from "preact/hooks";
import { needsLogin } from "./api/call.ts";
import { Loading } from "./kit/basics.tsx";
import { Problem } from "./kit/problem.tsx";
import { startTicks } from "./kit/ticks.ts";
import { go, href, listen, match, place } from "./router.ts";
import Login from "./screens/login/Login.tsx";
import Runs from "./screens/runs/Runs.tsx";
import { readBoot, staleBuild } from "./shell/boot.ts";
import { listenToKeys } from "./shell/keys.ts";
import { Shell } from "./shell/Shell.tsx";
import { words } from "./words/en.ts";

type Names = Readonly<Record<string, string>>;
type Screen = ComponentType<{ names: Names }>;

const SCREENS: readonly (readonly [string, () => Promise<{ default: Screen }>])[] = [
  ["/runs", () => Promise.resolve({ default: Runs })],
  ["/login", () => Promise.resolve({ default: Login })],
  ["/runs/{run_id}", () => import("./screens/run/Run.tsx")],
];

/** What is small and seen first comes with the page; the others when they are first shown. */
const loaded = new Map<string, Screen>([
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
    if (path === "/") go(href("/runs"), { replace: true });
  }, [path]);
  useEffect(() => {
    if (!needsLogin.value || path === "/login") return;
    const next = path + (place.peek().query.size ? `?${place.peek().query}` : "");
    go(href("/login", { next: path === "/" ? undefined : next }), { replace: true });
  }, [needsLogin.value, path]);
  for (const [pattern, load] of SCREENS) {
    const names = match(pattern, path);
    if (names) return <Lazy key={pattern} pattern={pattern} names={names} load={load} />;
  }
  if (path === "/") return null;
  return (
    <div class="empty">
      <h1>{words.noScreen.title}</h1>
      <p>
        <a href={href("/runs")}>{words.noScreen.next}</a>
      </p>
    </div>
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
