// What moves the picture of a run, over it: the picture has the room. What is used seldom is in a menu.
import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { addressOf } from "../../api/call.ts";
import type { Graph } from "../../graph/drawing.ts";
import type { GraphView } from "../../graph/view.ts";
import { saveFile } from "../../kit/files.ts";
import { change } from "../../router.ts";
import { words } from "../../words/en.ts";

interface Given {
  runId: string;
  view: RefObject<GraphView | null>;
  direction: Graph["direction"];
  outline: boolean;
  sparse: boolean;
  following: boolean;
  onFollow: (() => void) | undefined;
  onOutline: () => void;
  onWhole: () => void;
}

export function GraphTools({ view, outline, onOutline, ...more }: Given) {
  const text = words.run.graph;
  return (
    <div class="graph-tools" role="toolbar" aria-label={text.tools}>
      <div class="group">
        <button type="button" aria-label={text.zoomOut} title={text.zoomOut} onClick={() => view.current?.zoom(0.8)}>
          −
        </button>
        <button type="button" aria-label={text.zoomIn} title={text.zoomIn} onClick={() => view.current?.zoom(1.25)}>
          +
        </button>
        <button type="button" class="wide-only" onClick={() => view.current?.actualSize()}>
          {text.actual}
        </button>
        <button type="button" onClick={() => view.current?.fit()}>
          {text.fit}
        </button>
      </div>
      <button type="button" aria-expanded={outline} onClick={onOutline}>
        {text.outline}
      </button>
      <ViewMenu view={view} {...more} />
    </div>
  );
}

function ViewMenu(given: Omit<Given, "outline" | "onOutline">) {
  const { runId, view, direction, sparse, following, onFollow, onWhole } = given;
  const text = words.run.graph;
  const open = useSignal(false);
  const whole = useRef<HTMLDivElement>(null);
  const other = direction === "right" ? "down" : "right";
  const file = runId.replaceAll(/[^A-Za-z0-9._-]/g, "_");
  useEffect(() => {
    if (!open.value) return;
    const leave = (event: Event) => {
      if (!whole.current?.contains(event.target as Node)) open.value = false;
    };
    const close = (event: KeyboardEvent) => {
      if (event.key !== "Escape") return;
      event.stopPropagation(); // it closes the menu, and nothing behind it
      open.value = false;
      whole.current?.querySelector("button")?.focus();
    };
    addEventListener("pointerdown", leave);
    addEventListener("keydown", close, true);
    return () => {
      removeEventListener("pointerdown", leave);
      removeEventListener("keydown", close, true);
    };
  }, [open.value]);
  const choose = (act: () => void) => () => {
    open.value = false;
    act();
  };
  return (
    <div class="view-menu" ref={whole}>
      <button type="button" aria-expanded={open.value} onClick={() => (open.value = !open.value)}>
        {text.view}
        <span class="caret" aria-hidden="true" />
      </button>
      {open.value && (
        <div class="menu up" role="group" aria-label={text.view}>
          <button
            type="button"
            aria-pressed={sparse}
            onClick={choose(() => change({ hide: sparse ? undefined : "completed" }))}
          >
            {text.hide}
          </button>
          {onFollow && (
            <button type="button" aria-pressed={following} onClick={choose(onFollow)}>
              {text.follow}
            </button>
          )}
          <button type="button" onClick={choose(() => change({ direction: other }))}>
            {text.directions[other]}
          </button>
          {document.fullscreenEnabled && (
            <button type="button" onClick={choose(onWhole)}>
              {text.whole}
            </button>
          )}
          <a
            class="button"
            href={addressOf("GET /api/v1/runs/{run_id}/graph.svg", { path: { run_id: runId }, query: { direction } })}
            download={`${file}.svg`}
          >
            {text.svg}
          </a>
          <button
            type="button"
            onClick={choose(() => void view.current?.picture().then((made) => made && saveFile(made, `${file}.png`)))}
          >
            {text.png}
          </button>
        </div>
      )}
    </div>
  );
}
