// A part of a screen that is loaded when it is first shown: the file is asked for once, and kept. A quiet one has no place of its own
// on the screen, such as a sheet: nothing stands there before it comes.
import { useSignal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { Loading } from "./basics.tsx";
import { Problem } from "./problem.tsx";

export function later<Props extends object>(
  load: () => Promise<{ default: ComponentType<Props> }>,
  quiet = false,
): ComponentType<Props> {
  let kept: ComponentType<Props> | undefined;
  return function Later(given: Props) {
    const found = useSignal(kept);
    const error = useSignal<unknown>(undefined);
    useEffect(() => {
      if (kept) return;
      load().then(
        (made) => {
          kept = made.default;
          found.value = kept;
        },
        (caught: unknown) => {
          error.value = caught;
        },
      );
    }, []);
    const Found = found.value;
    if (Found) return <Found {...given} />;
    if (error.value === undefined) return quiet ? null : <Loading />;
    return <Problem error={error.value} onRetry={() => location.reload()} />;
  };
}
