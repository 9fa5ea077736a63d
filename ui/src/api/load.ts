// Reading something from the server for as long as a screen shows it: once, or again and again while it is seen.
import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

export interface Loaded<T> {
  readonly data: Signal<T | undefined>;
  readonly error: Signal<unknown>;
  readonly busy: Signal<boolean>;
  readonly reload: () => void;
  readonly stop: () => void;
}

/** Read anew whenever `key` or `again` changes. What was read before is kept until the new answer is there, unless the key is another. */
export function useLoad<T>(key: string, read: (signal: AbortSignal) => Promise<T>, again = 0): Loaded<T> {
  const data = useSignal<T | undefined>(undefined);
  const error = useSignal<unknown>(undefined);
  const busy = useSignal(true);
  const turn = useSignal(0);
  const stop = useRef<() => void>(() => {});
  const shown = useRef("");
  useEffect(() => {
    const aborter = new AbortController();
    stop.current = () => {
      aborter.abort();
      busy.value = false;
    };
    if (shown.current !== key) data.value = undefined;
    busy.value = true;
    read(aborter.signal).then(
      (found) => {
        if (aborter.signal.aborted) return;
        shown.current = key;
        data.value = found;
        error.value = undefined;
        busy.value = false;
      },
      (caught: unknown) => {
        if (aborter.signal.aborted) return;
        error.value = caught;
        busy.value = false;
      },
    );
    return () => aborter.abort();
  }, [key, turn.value, again]);
  return {
    data,
    error,
    busy,
    reload: () => {
      turn.value += 1;
    },
    stop: () => stop.current(),
  };
}

export interface Page<One> {
  readonly items: readonly One[];
  readonly next_cursor: string | null;
}
export interface Pages<One> {
  readonly items: readonly One[];
  readonly more: boolean;
}

/** As many as are asked for, page by page, and whether there are more. */
export async function readPages<One>(
  limit: number,
  read: (cursor: string | undefined) => Promise<Page<One>>,
): Promise<Pages<One>> {
  const items: One[] = [];
  let cursor: string | undefined;
  do {
    const page = await read(cursor);
    items.push(...page.items);
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined && items.length < limit);
  return { items, more: cursor !== undefined };
}

const LONGEST_PAUSE_SECONDS = 30;

/** When the next try comes after the server went silent, in milliseconds of this clock; undefined while it answers. */
export interface Pulse {
  readonly stop: () => void;
}

/** Call `beat` every so many seconds while the page is seen; after a failure less and less often, up to 30 s. */
export function pulse(
  seconds: number,
  beat: () => Promise<void>,
  onPause: (seconds: number | undefined) => void,
): Pulse {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let pause = seconds;
  let stopped = false;
  let running = false;

  async function run(): Promise<void> {
    if (stopped || running || document.hidden) return;
    running = true;
    try {
      await beat();
      pause = seconds;
      onPause(undefined);
    } catch {
      pause = Math.min(pause * 2, LONGEST_PAUSE_SECONDS);
      onPause(pause);
    } finally {
      running = false;
    }
    if (!stopped) timer = setTimeout(run, pause * 1000);
  }

  const wake = () => {
    if (document.hidden) return;
    clearTimeout(timer);
    void run();
  };
  document.addEventListener("visibilitychange", wake);
  timer = setTimeout(run, seconds * 1000);
  return {
    stop: () => {
      stopped = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", wake);
    },
  };
}
