// All lines of a run: searched, by level and by node, wrapped, followed, and kept as a file.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { withoutColours } from "../../kit/ansi.ts";
import { saveFile } from "../../kit/files.ts";
import { change, place } from "../../router.ts";
import { logs as text } from "../../words/logs.ts";
import { Lines, Logs, One, type Whole } from "./Logs.tsx";
import type { RunStore } from "./store.ts";

export default function AllLines({ runId, store }: { runId: string; store: RunStore }) {
  return <Logs runId={runId} store={store} whole={Searched} />;
}

/** From the quietest: lines of a level show with those that are louder. */
const LOUDNESS = ["debug", "info", "warning", "error", "critical"];
const loudness = (level: string): number => {
  const found = LOUDNESS.indexOf(level.toLowerCase());
  return found >= 0 ? found : level.toLowerCase() === "stderr" ? 2 : 1;
};

/** Wrapped lines have any height, so only the last of many are laid out. */
const MOST_WRAPPED = 2000;

function Searched({ runId, lines }: Whole) {
  const query = place.value.query.get("q") ?? "";
  const level = useSignal("");
  const node = useSignal("");
  const wrap = useSignal(false);
  const following = useSignal(false);
  const wanted = query.toLowerCase();
  const least = level.value ? loudness(level.value) : -1;
  const nodes = [...new Set(lines.map((line) => line.node))];
  const shown = lines.filter(
    (line) =>
      (!wanted || line.message.toLowerCase().includes(wanted) || line.node.toLowerCase().includes(wanted)) &&
      loudness(line.level) >= least &&
      (!node.value || line.node === node.value),
  );
  useEffect(() => {
    if (following.value) scrollTo(0, document.documentElement.scrollHeight);
  }, [following.value, shown.length]);
  const save = () => {
    const content = shown.map((line) =>
      [new Date(line.at * 1000).toISOString(), line.level, line.node, withoutColours(line.message)].join(" "),
    );
    saveFile(
      new Blob([`${content.join("\n")}\n`], { type: "text/plain" }),
      `${runId.replaceAll(/[^A-Za-z0-9._-]/g, "_")}.log`,
    );
  };
  return (
    <>
      <div class="bar logs-bar">
        <label class="grow">
          <span class="hidden">{text.search}</span>
          <input
            type="search"
            placeholder={text.searchHint}
            value={query}
            onInput={(event) => change({ q: event.currentTarget.value }, true)}
          />
        </label>
        <select
          aria-label={text.level}
          value={level.value}
          onChange={(event) => (level.value = event.currentTarget.value)}
        >
          <option value="">{text.anyLevel}</option>
          {LOUDNESS.slice(1, 4).map((one) => (
            <option key={one} value={one}>
              {text.levels[one]}
            </option>
          ))}
        </select>
        <select
          aria-label={text.node}
          value={node.value}
          onChange={(event) => (node.value = event.currentTarget.value)}
        >
          <option value="">{text.anyNode}</option>
          {nodes.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
        <label class="check">
          <input
            type="checkbox"
            checked={wrap.value}
            onChange={(event) => (wrap.value = event.currentTarget.checked)}
          />
          {text.wrap}
        </label>
        <label class="check">
          <input
            type="checkbox"
            checked={following.value}
            onChange={(event) => (following.value = event.currentTarget.checked)}
          />
          {text.follow}
        </label>
        <button type="button" onClick={save}>
          {text.download}
        </button>
      </div>
      {shown.length === 0 ? (
        <p class="nothing soft">{text.none}</p>
      ) : wrap.value ? (
        <ol class="lines wrapped" aria-label={text.label}>
          {shown.slice(-MOST_WRAPPED).map((line) => (
            <One key={line.position} line={line} />
          ))}
        </ol>
      ) : (
        <Lines lines={shown} />
      )}
    </>
  );
}
