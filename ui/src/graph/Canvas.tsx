// The canvas in the page: pointer, wheel and keys move the view; a click chooses a node.
import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Fates } from "../film/film.ts";
import type { NodeView } from "../screens/run/store.ts";
import { theme } from "../shell/theme.ts";
import { words } from "../words/en.ts";
import type { Drawing } from "./model.ts";
import { GraphView } from "./view.ts";

interface Given {
  drawing: Drawing;
  nodes: ReadonlyMap<string, NodeView>;
  /** What became of the edges, where that is known better than by the nodes. */
  fates?: Fates | undefined;
  chosen: string;
  onChoose: (id: string) => void;
  view: RefObject<GraphView | null>;
  label?: string;
  /** Whether nodes that are done are left out. */
  sparse?: boolean;
  /** Whether the run is shown as it is now and goes on. */
  lively?: boolean;
  /** The node under a pointer that rests there; undefined when it goes on. */
  onRest?: (id: string | undefined) => void;
}

const REST_MS = 400;

export function Canvas(given: Given) {
  const {
    drawing,
    nodes,
    fates,
    chosen,
    onChoose,
    view,
    label = words.run.graph.label,
    sparse = false,
    lively = false,
    onRest,
  } = given;
  const canvas = useRef<HTMLCanvasElement>(null);
  const dragging = useSignal(false);
  useEffect(() => {
    const element = canvas.current!;
    const made = new GraphView(element);
    view.current = made;
    const sizes = new ResizeObserver(() => made.resize());
    sizes.observe(element);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const recolour = () => made.recolour();
    dark.addEventListener("change", recolour);
    const letGo = listen(element, made, onChoose, (on) => {
      dragging.value = on;
    });
    const noRest = onRest ? listenToRest(element, made, onRest) : undefined;
    return () => {
      noRest?.();
      sizes.disconnect();
      dark.removeEventListener("change", recolour);
      letGo();
      made.stop();
      view.current = null;
    };
  }, []);
  useEffect(() => {
    const less = matchMedia("(prefers-reduced-motion: reduce)");
    const choose = () => {
      view.current?.enliven(lively && !less.matches);
    };
    choose();
    less.addEventListener("change", choose);
    return () => less.removeEventListener("change", choose);
  }, [lively]);
  useEffect(() => view.current?.show(drawing), [drawing]);
  useEffect(() => view.current?.mark(nodes, fates), [nodes, fates]);
  useEffect(() => view.current?.spare(sparse), [sparse, drawing]);
  useEffect(() => view.current?.recolour(), [theme.value]);
  useEffect(() => {
    if (!view.current) return;
    view.current.chosen = chosen;
    if (chosen) view.current.reveal(chosen);
    view.current.redraw();
  }, [chosen, drawing]);
  return (
    <canvas
      ref={canvas}
      class={dragging.value ? "dragging" : ""}
      role="img"
      aria-label={`${label}. ${words.run.graph.keyboard}`}
      data-nodes={drawing.boxes.length}
    />
  );
}

/** Tell of the box that a mouse rests on. */
function listenToRest(
  element: HTMLCanvasElement,
  view: GraphView,
  onRest: (id: string | undefined) => void,
): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let under = "";
  const leave = () => {
    clearTimeout(timer);
    under = "";
    onRest(undefined);
  };
  const move = (event: PointerEvent) => {
    const found =
      event.pointerType === "mouse" && event.buttons === 0 ? view.at(event.offsetX, event.offsetY) : undefined;
    if ((found?.id ?? "") === under) return;
    leave();
    if (!found) return;
    under = found.id;
    timer = setTimeout(() => onRest(found.id), REST_MS);
  };
  const gone = ["pointerleave", "pointerdown", "wheel"] as const;
  element.addEventListener("pointermove", move);
  for (const name of gone) element.addEventListener(name, leave, { passive: true });
  return () => {
    clearTimeout(timer);
    element.removeEventListener("pointermove", move);
    for (const name of gone) element.removeEventListener(name, leave);
  };
}

/** Drag to pan, two fingers to zoom, wheel with ⌘ or Ctrl to zoom: the plain wheel scrolls the page. */
function listen(
  element: HTMLCanvasElement,
  view: GraphView,
  onChoose: (id: string) => void,
  onDrag: (on: boolean) => void,
): () => void {
  const fingers = new Map<number, { x: number; y: number }>();
  let moved = 0;
  const down = (event: PointerEvent) => {
    if (event.button !== 0) return;
    if (view.jump(event.offsetX, event.offsetY)) return;
    element.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    moved = 0;
  };
  const move = (event: PointerEvent) => {
    const before = fingers.get(event.pointerId);
    if (!before) {
      element.style.cursor = view.at(event.offsetX, event.offsetY) ? "pointer" : "";
      return;
    }
    const now = { x: event.offsetX, y: event.offsetY };
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const ratio = Math.hypot(now.x - other.x, now.y - other.y) / Math.hypot(before.x - other.x, before.y - other.y);
      view.zoom(Number.isFinite(ratio) && ratio > 0 ? ratio : 1, (now.x + other.x) / 2, (now.y + other.y) / 2);
    }
    view.pan((now.x - before.x) / fingers.size, (now.y - before.y) / fingers.size);
    moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    if (moved > 4) onDrag(true);
    fingers.set(event.pointerId, now);
  };
  const up = (event: PointerEvent) => {
    if (!fingers.delete(event.pointerId)) return;
    onDrag(false);
    const box = moved <= 4 ? view.at(event.offsetX, event.offsetY) : undefined;
    if (box) onChoose(box.id);
  };
  const cancel = (event: PointerEvent) => {
    fingers.delete(event.pointerId);
    onDrag(false);
  };
  const wheel = (event: WheelEvent) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    view.zoom(Math.exp(-event.deltaY / 300), event.offsetX, event.offsetY);
  };
  element.addEventListener("pointerdown", down);
  element.addEventListener("pointermove", move);
  element.addEventListener("pointerup", up);
  element.addEventListener("pointercancel", cancel);
  element.addEventListener("wheel", wheel, { passive: false });
  return () => {
    element.removeEventListener("pointerdown", down);
    element.removeEventListener("pointermove", move);
    element.removeEventListener("pointerup", up);
    element.removeEventListener("pointercancel", cancel);
    element.removeEventListener("wheel", wheel);
  };
}
