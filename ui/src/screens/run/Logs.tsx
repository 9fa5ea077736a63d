// What the functions of a run wrote, in order; it goes on while the run does.
import { useSignal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { call, type Schemas } from "../../api/call.ts";
import { readColours } from "../../kit/ansi.ts";
import { Foreign, Loading } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { cut } from "../../kit/text.ts";
import { clockWithMilliseconds, exactTime, zone } from "../../kit/time.ts";
import { useWindow } from "../../kit/window.ts";
import { logs as text } from "../../words/logs.ts";
import type { RunStore } from "./store.ts";

export type Line = Schemas["LogLine"];

const ROW = 22;
const LONGEST = 5000;

export interface Whole {
  readonly runId: string;
  readonly lines: readonly Line[];
}

interface Given {
  runId: string;
  store: RunStore;
  /** Of one node, the newest lines alone. */
  node?: string;
  /** What shows all lines of the run. */
  whole?: ComponentType<Whole>;
}

export function Logs({ runId, store, node, whole: Searched }: Given) {
  const lines = useSignal<readonly Line[] | undefined>(undefined);
  const error = useSignal<unknown>(undefined);
  const turn = useSignal(0);
  const after = useRef(0);
  useEffect(() => {
    after.current = 0;
    lines.value = undefined;
    const aborter = new AbortController();
    const read = async () => {
      for (let more = true; more; ) {
        const page = await call("GET /api/v1/runs/{run_id}/logs", {
          path: { run_id: runId },
          query: { after: after.current, limit: 1000, node },
          signal: aborter.signal,
        });
        after.current = page.items.at(-1)?.position ?? after.current;
        if (page.items.length || lines.peek() === undefined) lines.value = [...(lines.peek() ?? []), ...page.items];
        more = page.next_cursor !== null && page.items.length > 0;
      }
      error.value = undefined;
      store.withLogs(after.current);
    };
    const again = () =>
      read().catch((caught: unknown) => {
        if (!aborter.signal.aborted) error.value = caught;
      });
    // Once now, and then whenever the stream has brought lines; one reading after the other.
    let reading: Promise<void> = Promise.resolve();
    const stop = store.lines.subscribe(() => {
      reading = reading.then(again);
    });
    return () => {
      aborter.abort();
      stop();
    };
  }, [runId, node, turn.value]);
  const found = lines.value;
  if (!found) {
    if (error.value !== undefined) return <Problem error={error.value} onRetry={() => (turn.value += 1)} />;
    return <Loading rows={4} />;
  }
  if (found.length === 0) return <p class="nothing soft">{node ? text.emptyNode : text.empty}</p>;
  return Searched ? <Searched runId={runId} lines={found} /> : <Lines lines={found.slice(-200)} />;
}

export function One({ line }: { line: Line }) {
  return (
    <li data-level={line.level.toLowerCase()} title={exactTime(line.at, zone.value)}>
      <span class="soft number">{clockWithMilliseconds(line.at, zone.value)}</span>
      <Foreign text={line.node} className="log-node" />
      <span class="log-text">
        {readColours(cut(line.message, LONGEST)).map((piece, index) => (
          <Foreign key={index} text={piece.text} className={piece.look} />
        ))}
      </span>
    </li>
  );
}

export function Lines({ lines }: { lines: readonly Line[] }) {
  const list = useRef<HTMLOListElement>(null);
  const seen = useWindow(list, lines.length, ROW, ROW);
  const { from, to } = seen.value;
  return (
    <ol class="lines" ref={list} aria-label={text.label}>
      <li class="gap" aria-hidden="true" style={{ height: `${from * ROW}px` }} />
      {lines.slice(from, to).map((line) => (
        <One key={line.position} line={line} />
      ))}
      <li class="gap" aria-hidden="true" style={{ height: `${(lines.length - to) * ROW}px` }} />
    </ol>
  );
}
