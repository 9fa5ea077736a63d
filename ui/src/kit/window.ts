// Which rows of a long list are in view: only these are in the document, however long the list is.
import { type Signal, useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect } from "preact/hooks";

export interface Seen {
  readonly from: number;
  readonly to: number;
  readonly height: number;
}

const BEYOND = 12;
const NARROW = "(max-width: 639px)";

export function rowsInView(top: number, viewport: number, count: number, height: number): { from: number; to: number } {
  const first = Math.floor(-top / height) - BEYOND;
  const last = Math.ceil((viewport - top) / height) + BEYOND;
  // Steps of eight rows: scrolling by a pixel draws nothing anew.
  const from = Math.max(0, Math.min(count, Math.floor(first / 8) * 8));
  return { from, to: Math.max(from, Math.min(count, Math.ceil(last / 8) * 8)) };
}

/** The rows of `element` that the window shows; rows are `height` pixels high, on narrow screens `tall`. */
export function useWindow(
  element: RefObject<HTMLElement | null>,
  count: number,
  height: number,
  tall: number,
): Signal<Seen> {
  const seen = useSignal<Seen>({ from: 0, to: Math.min(count, 60), height });
  useEffect(() => {
    const narrow = matchMedia(NARROW);
    const look = () => {
      const box = element.current?.getBoundingClientRect();
      if (!box) return;
      const each = narrow.matches ? tall : height;
      const found = rowsInView(box.top, innerHeight, count, each);
      const old = seen.peek();
      if (found.from !== old.from || found.to !== old.to || each !== old.height)
        seen.value = { ...found, height: each };
    };
    look();
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, [count]);
  return seen;
}
