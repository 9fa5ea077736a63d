// `/welcome`: how to begin, for a server without runs.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Problem } from "../../kit/problem.tsx";
import { href } from "../../router.ts";
import { words } from "../../words/en.ts";
import { welcome } from "../../words/welcome.ts";
import { YourTurn } from "./Welcome.tsx";

export default function WelcomePage() {
  const text = welcome;
  const error = useSignal<unknown>(undefined);
  useEffect(() => {
    document.title = `${text.title} · ${words.product}`;
  }, []);
  const act = async (action: () => Promise<void>) => {
    error.value = undefined;
    try {
      await action();
    } catch (caught) {
      error.value = caught;
    }
  };
  return (
    <section class="screen narrow">
      <header class="head">
        <h1>{text.title}</h1>
      </header>
      <p>{text.intro}</p>
      {error.value !== undefined && <Problem error={error.value} />}
      <YourTurn act={act} />
      <p>
        <a href={href("/runs")}>{words.noScreen.next}</a>
      </p>
    </section>
  );
}
