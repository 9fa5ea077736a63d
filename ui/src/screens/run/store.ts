// One run as it is now: the server's own view of it, read again whenever its journal grows, and the journal itself.
import { computed, signal } from "@preact/signals";
import { call, type Schemas } from "../../api/call.ts";
import { type Frame, followRun, readData, type StreamState } from "../../api/stream.ts";

export type RunView = Schemas["Run"];
export type NodeView = Schemas["Node"];
export type RunEvent = Schemas["Event"];

const SOONEST_MS = 250;
const DONE = new Set(["completed", "skipped", "compensated"]);
const ENDED = new Set(["completed", "failed", "cancelled", "rolled_back"]);

export const hasEnded = (run: RunView): boolean => ENDED.has(run.state);

export class RunStore {
  readonly run = signal<RunView | undefined>(undefined);
  readonly nodes = signal<ReadonlyMap<string, NodeView>>(new Map());
  readonly why = signal<ReadonlyMap<string, string>>(new Map());
  readonly error = signal<unknown>(undefined);
  readonly live = signal<{ state: StreamState; seconds: number }>({ state: "connecting", seconds: 0 });
  /** The journal, oldest first, as far as the stream has brought it. */
  readonly events = signal<readonly RunEvent[]>([]);
  /** Grows with each reading, so that open drawers read their node again. */
  readonly readings = signal(0);
  readonly counts = computed(() => countStates(this.nodes.value));
  readonly runId: string;
  #aborter = new AbortController();
  #end: (() => void) | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #reading = false;
  #wanted = false;
  #tookMs = 0;

  constructor(runId: string) {
    this.runId = runId;
  }

  open(): void {
    void this.#read();
    this.#end = followRun(this.runId, 0, {
      onFrames: (frames) => this.#take(frames),
      onState: (state, seconds = 0) => {
        this.live.value = { state, seconds };
        if (state === "ended") this.#wish();
      },
      onError: (error) => {
        this.error.value ??= error;
      },
    });
  }

  close(): void {
    this.#end?.();
    this.#aborter.abort();
    clearTimeout(this.#timer);
  }

  retry(): void {
    this.error.value = undefined;
    this.#end?.();
    this.events.value = [];
    this.open();
  }

  #take(frames: readonly Frame[]): void {
    const found = frames.filter((frame) => frame.id).map((frame) => readData(frame) as RunEvent);
    if (found.length) this.events.value = [...this.events.peek(), ...found];
    this.#wish();
  }

  /** Read the run again soon: at most four times a second, and at most a fifth of the time. */
  #wish(): void {
    if (this.#reading) {
      this.#wanted = true;
      return;
    }
    this.#timer ??= setTimeout(
      () => {
        this.#timer = undefined;
        void this.#read();
      },
      Math.max(SOONEST_MS, this.#tookMs * 4),
    );
  }

  async #read(): Promise<void> {
    this.#reading = true;
    this.#wanted = false;
    const begun = performance.now();
    const path = { run_id: this.runId };
    const { signal } = this.#aborter;
    try {
      const run = await call("GET /api/v1/runs/{run_id}", { path, query: { outputs: false }, signal });
      const nodes = new Map(Object.entries(run.nodes));
      for (let cursor = run.next_nodes ?? null; cursor !== null; ) {
        const page = await call("GET /api/v1/runs/{run_id}/nodes", { path, query: { cursor, limit: 1000 }, signal });
        for (const item of page.items) nodes.set(item.node, item);
        cursor = page.next_cursor;
      }
      this.run.value = run;
      this.nodes.value = nodes;
      this.error.value = undefined;
      this.readings.value += 1;
      await this.#readWhy(run);
    } catch (error) {
      if (!signal.aborted && this.run.peek() === undefined) this.error.value = error;
    } finally {
      this.#reading = false;
      this.#tookMs = performance.now() - begun;
      if (this.#wanted) this.#wish();
    }
  }

  async #readWhy(run: RunView): Promise<void> {
    if (hasEnded(run)) {
      this.why.value = new Map();
      return;
    }
    const found = await call("GET /api/v1/runs/{run_id}/explain", {
      path: { run_id: this.runId },
      signal: this.#aborter.signal,
    });
    this.why.value = new Map(Object.entries(found.nodes));
  }
}

export interface Counts {
  readonly all: number;
  readonly done: number;
  readonly waits: number;
  readonly failed: number;
  readonly running: number;
}

export function countStates(nodes: ReadonlyMap<string, NodeView>): Counts {
  const counts = { all: nodes.size, done: 0, waits: 0, failed: 0, running: 0 };
  for (const node of nodes.values()) {
    if (DONE.has(node.state)) counts.done += 1;
    else if (node.state === "failed" || node.state === "parked") counts.failed += 1;
    else if (node.state === "running" || node.state === "queued") counts.running += 1;
    else if (node.state === "waiting" || node.state === "held" || node.state === "retrying") counts.waits += 1;
  }
  return counts;
}

const URGENT = ["parked", "failed", "held", "waiting", "retrying"];

/** The node that a run stands still for, the most urgent first: what is parked, lacks a worker, waits for a person, and so on. */
export function mostUrgent(nodes: ReadonlyMap<string, NodeView>): string | undefined {
  let best: string | undefined;
  let rank = URGENT.length;
  for (const [id, node] of nodes) {
    let found = URGENT.indexOf(node.state);
    if (found < 0) continue;
    if (node.state === "waiting" && node.waiting_for?.kind !== "approval") found += 0.5;
    if (found < rank) {
      best = id;
      rank = found;
    }
  }
  return best;
}
