// Reading something again and again while a screen that shows it is seen.
import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { nextTry } from "../shell/Shell.tsx";
import { pulse } from "./load.ts";

export interface Polled<T> {
  readonly data: Signal<T | undefined>;
  readonly error: Signal<unknown>;
  readonly retry: () => void;
}

/** What `read` gives, at once and then every so many seconds. An error is shown only where nothing was read before. */
export function usePoll<T>(key: string, seconds: number, read: (signal: AbortSignal) => Promise<T>): Polled<T> {
  const data = useSignal<T | undefined>(undefined);
  const error = useSignal<unknown>(undefined);
  const turn = useSignal(0);
  useEffect(() => {
    const aborter = new AbortController();
    data.value = undefined;
    error.value = undefined;
    const look = async () => {
      try {
        const found = await read(aborter.signal);
        if (aborter.signal.aborted) return;
        data.value = found;
        error.value = undefined;
      } catch (caught) {
        if (aborter.signal.aborted) return;
        if (data.peek() === undefined) error.value = caught;
        throw caught;
      }
    };
    const polling = pulse(seconds, look, (pause) => {
      nextTry.value = pause;
    });
    void look().catch(() => {}); // shown above, or told of by the banner
    return () => {
      aborter.abort();
      polling.stop();
      nextTry.value = undefined;
    };
  }, [key, turn.value]);
  return {
    data,
    error,
    retry: () => {
      turn.value += 1;
    },
  };
}
