// How wide the drawer is: dragged at its edge, or moved with the arrow keys; kept in this browser.
import { signal, useSignal } from "@preact/signals";
import { words } from "../../words/en.ts";

const LEAST = 320;
const MOST = 900;
const USUAL = 420;
const STEP = 24;

function readKept(): number {
  try {
    return Number(localStorage.getItem("drawer")) || USUAL;
  } catch {
    return USUAL;
  }
}

const clamp = (value: number): number => Math.round(Math.max(LEAST, Math.min(MOST, value)));

export const drawerWidth = signal(clamp(readKept()));

function keep(value: number): void {
  drawerWidth.value = clamp(value);
  try {
    localStorage.setItem("drawer", String(drawerWidth.value));
  } catch {
    // it is kept until the page is closed
  }
}

export function Grip() {
  const from = useSignal<number | undefined>(undefined);
  const isBackward = getComputedStyle(document.documentElement).direction === "rtl";
  const sign = isBackward ? -1 : 1;
  return (
    <div
      class={from.value === undefined ? "grip" : "grip held"}
      role="separator"
      aria-orientation="vertical"
      aria-label={words.run.drawer.width}
      aria-valuenow={drawerWidth.value}
      aria-valuemin={LEAST}
      aria-valuemax={MOST}
      tabIndex={0}
      onPointerDown={(event) => {
        event.preventDefault();
        event.currentTarget.setPointerCapture(event.pointerId);
        from.value = drawerWidth.peek() + sign * event.clientX;
      }}
      onPointerMove={(event) => {
        if (from.value !== undefined) drawerWidth.value = clamp(from.value - sign * event.clientX);
      }}
      onPointerUp={() => {
        from.value = undefined;
        keep(drawerWidth.peek());
      }}
      onDblClick={() => keep(USUAL)}
      onKeyDown={(event) => {
        const step = { ArrowLeft: STEP * sign, ArrowRight: -STEP * sign }[event.key];
        if (!step) return;
        event.preventDefault();
        keep(drawerWidth.peek() + step);
      }}
    />
  );
}
