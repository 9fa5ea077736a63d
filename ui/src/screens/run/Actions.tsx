// What can be done with the run: the likely ones at hand, all of them in a menu, with the reason where one cannot be done.
import { useSignal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { addressOf, call, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Foreign, Loading } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { href } from "../../router.ts";
import { onKeys } from "../../shell/keys.ts";
import { lacks, readMe } from "../../shell/me.ts";
import { words } from "../../words/actions.ts";
import { papers } from "../../words/papers.ts";
import { hasEnded, type RunStore, type RunView } from "./store.ts";
import { type ActionName, type Wish, wish } from "./wish.ts";

const ORDER: readonly ActionName[] = ["retry", "resume", "pause", "cancel", "rerun", "signal", "rollback", "force"];

/** The likely ones, by the state of the run. */
function atHand(run: RunView): readonly ActionName[] {
  switch (run.state) {
    case "failed":
      return ["retry", "rerun"];
    case "paused":
      return ["resume", "cancel"];
    case "running":
      return ["pause", "cancel"];
    case "cancelling":
    case "compensating":
    case "failing":
      return ["force"];
    default:
      return ["rerun"];
  }
}

export function ActionBar({ store, run }: { store: RunStore; run: RunView }) {
  const menu = useSignal(false);
  const button = useRef<HTMLButtonElement>(null);
  // Before the bar is seen: a key that is pressed as soon as it is there must find it.
  useLayoutEffect(() => {
    void readMe();
    return onKeys({ ".": () => (menu.value = !menu.value) });
  }, []);
  const off = lacks("runs:operate");
  return (
    <div class="actions">
      {atHand(run).map((name) => (
        <button
          key={name}
          type="button"
          class={name === "retry" || name === "resume" ? "strong" : undefined}
          aria-disabled={off !== undefined}
          title={off}
          onClick={() => {
            if (off === undefined) wish.value = { runId: store.runId, action: name };
          }}
        >
          {words.verbs[name]}
        </button>
      ))}
      <button
        ref={button}
        type="button"
        aria-haspopup="dialog"
        aria-expanded={menu.value}
        onClick={() => (menu.value = !menu.value)}
      >
        {words.menu.title}
        <span aria-hidden="true" class="caret" />
      </button>
      {menu.value && (
        <Menu
          store={store}
          off={off}
          onClose={() => {
            menu.value = false;
            button.current?.focus();
          }}
          onChoose={(action) => {
            menu.value = false;
            wish.value = { runId: store.runId, action };
          }}
        />
      )}
    </div>
  );
}

interface MenuProps {
  store: RunStore;
  off: string | undefined;
  onClose: () => void;
  onChoose: (action: ActionName) => void;
}

function Menu({ store, off, onClose, onChoose }: MenuProps) {
  const box = useRef<HTMLDivElement>(null);
  const found = useLoad(`${store.runId} ${store.run.value?.state}`, (signal) =>
    call("GET /api/v1/runs/{run_id}/actions", { path: { run_id: store.runId }, signal }),
  );
  const actions = found.data.value?.actions;
  const isRead = actions !== undefined;
  useEffect(() => {
    const outside = (event: PointerEvent) => {
      const target = event.target as Element | null;
      if (target && !box.current?.parentElement?.contains(target)) onClose();
    };
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, []);
  useEffect(() => {
    box.current?.querySelector<HTMLElement>("button")?.focus();
  }, [isRead]);
  const move = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      event.preventDefault();
      onClose();
      return;
    }
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const all = [...(box.current?.querySelectorAll<HTMLElement>("button") ?? [])];
    const at = all.indexOf(document.activeElement as HTMLElement);
    all[(at + step + all.length) % all.length]?.focus();
  };
  return (
    <div ref={box} class="menu" role="dialog" aria-label={words.menu.label} tabIndex={-1} onKeyDown={move}>
      {!actions ? (
        found.error.value === undefined ? (
          <Loading rows={4} />
        ) : (
          <Problem error={found.error.value} onRetry={found.reload} />
        )
      ) : (
        // What can be done now stands first.
        ORDER.toSorted(
          (one, other) => Number(Boolean(refusal(actions[one]))) - Number(Boolean(refusal(actions[other]))),
        ).map((name) => {
          const why = off ?? refusal(actions[name]);
          return (
            <button
              key={name}
              type="button"
              aria-disabled={why !== undefined}
              onClick={() => {
                if (why === undefined) onChoose(name);
              }}
            >
              <strong>{words.verbs[name]}</strong>
              <span class="soft">{why === undefined ? words.does[name] : <Foreign text={why} />}</span>
            </button>
          );
        })
      )}
      <Ways store={store} />
    </div>
  );
}

/** Why it cannot be done. A run whose budget is used up is asked for a larger one when it is resumed. */
function refusal(found: Schemas["Preview"] | undefined): string | undefined {
  return found?.code === "budget_exhausted" ? undefined : (found?.why_not ?? undefined);
}

/** What changes nothing: the run on paper, as a file, and beside the one it was made from. */
function Ways({ store }: { store: RunStore }) {
  const run = store.run.value;
  const origin = run?.origin;
  return (
    <p class="menu-ways">
      {run && !hasEnded(run) && lacks("runs:patch", "workflows:write") === undefined && (
        <a class="narrow-only" href={href(`/runs/${encodeURIComponent(store.runId)}/edit`)}>
          {words.menu.patch}
        </a>
      )}
      <a href={href(`/runs/${encodeURIComponent(store.runId)}/print`)}>{papers.print.way}</a>
      <a
        href={addressOf("GET /api/v1/runs/{run_id}/export", { path: { run_id: store.runId } })}
        download={`${store.runId.replaceAll(/[^A-Za-z0-9._-]/g, "_")}.json`}
      >
        {papers.print.export}
      </a>
      {origin && <a href={href(`/runs/${encodeURIComponent(origin)}`, { compare: store.runId })}>{papers.pair.way}</a>}
    </p>
  );
}

type SheetProps = { store: RunStore; run: RunView; wish: Wish; onClose: () => void };
let Loaded: ComponentType<SheetProps> | undefined;

/** The sheet of the chosen action, whose code is loaded when the first one is opened. */
export function ActionSheets({ store, run }: { store: RunStore; run: RunView }) {
  const error = useSignal<unknown>(undefined);
  const ready = useSignal(Loaded !== undefined);
  const wanted = wish.value?.runId === store.runId ? wish.value : undefined;
  useEffect(() => {
    if (!wanted || Loaded) return;
    import("./sheet/ActionSheet.tsx").then(
      (found) => {
        Loaded = found.default;
        ready.value = true;
      },
      (caught: unknown) => {
        error.value = caught;
      },
    );
  }, [wanted]);
  if (!wanted) return null;
  if (error.value !== undefined) return <Problem error={error.value} onRetry={() => location.reload()} />;
  if (!ready.value || !Loaded) return null;
  const key = `${wanted.action} ${wanted.about ?? ""}`;
  return <Loaded key={key} store={store} run={run} wish={wanted} onClose={() => (wish.value = undefined)} />;
}
