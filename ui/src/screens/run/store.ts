// One run: the server's own view of it as it is now, read again whenever its journal grows; the journal; and the film of what was before.
import { computed, signal } from "@preact/signals";
import { call, type Schemas } from "../../api/call.ts";
import { type Frame, followRun, type RunFollowing, readData, type StreamState } from "../../api/stream.ts";
import { FilmStore } from "../../film/store.ts";
import { DONE } from "../../graph/model.ts";
import { place } from "../../router.ts";
import { EventBook, type RunEvent } from "./events.ts";

export type RunView = Schemas["Run"];
export type NodeView = Schemas["Node"];

interface Live {
  readonly state: StreamState;
  readonly seconds: number;
}

const SOONEST_MS = 250;
const MOST_PATIENCE_MS = 8000;
const ENDED = new Set(["completed", "failed", "cancelled", "rolled_back"]);

export const hasEnded = (run: RunView): boolean => ENDED.has(run.state);

export class RunStore {
  readonly run = signal<RunView | undefined>(undefined);
  readonly nodes = signal<ReadonlyMap<string, NodeView>>(new Map());
  readonly why = signal<ReadonlyMap<string, string>>(new Map());
  /** The same in codes and ids. */
  readonly reasons = signal<ReadonlyMap<string, Schemas["Obstacle"]>>(new Map());
  /** What holds the run up first. */
  readonly first = signal<Schemas["Obstacle"] | null>(null);
  readonly error = signal<unknown>(undefined);
  readonly #stream = signal<Live>({ state: "connecting", seconds: 0 });
  readonly live = computed(() => liveOf(this.#stream.value, this.run.value));
  /** Grows with every log line that comes. */
  readonly lines = signal(0);
  /** Grows with each reading, so that open drawers read their node again. */
  readonly readings = signal(0);
  readonly runId: string;
  readonly events: EventBook;
  readonly film: FilmStore;
  /** The event that the reader looks at; undefined: the run as it is now. */
  readonly at = computed(() => readAt(place.value.query.get("at"), this.events.last.value));
  /** The nodes as they are shown: now, or at that event. */
  readonly shown = computed(() => (this.at.value === undefined ? this.nodes.value : this.film.nodesAt(this.at.value)));
  readonly counts = computed(() => countStates(this.shown.value));
  #aborter = new AbortController();
  #following: RunFollowing | undefined;
  #linesFrom: number | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #reading = false;
  #wanted = false;
  #tookMs = 0;
  /** The first picture of a large run comes before the rest of it is read: the server does one thing after the other. */
  #drawn = Promise.resolve();
  pictured = (): void => {};

  constructor(runId: string) {
    this.runId = runId;
    this.events = new EventBook(runId, this.#aborter.signal);
    this.film = new FilmStore(runId, this.#aborter.signal);
    this.#drawn = new Promise((done) => {
      this.pictured = done;
      setTimeout(done, MOST_PATIENCE_MS);
    });
  }

  open(): void {
    void this.#begin();
  }

  async #begin(): Promise<void> {
    await this.#read();
    if (this.#aborter.signal.aborted || this.error.peek() !== undefined) return;
    const last = await this.film.read();
    if (this.#aborter.signal.aborted || this.error.peek() !== undefined) return;
    this.events.grow(last);
    this.#following = followRun(this.runId, last, {
      onFrames: (frames) => this.#take(frames),
      onState: (state, seconds = 0) => {
        this.#stream.value = { state, seconds };
        if (state === "ended") this.#wish();
      },
      onError: (error) => {
        this.error.value ??= error;
      },
    });
    if (this.#linesFrom !== undefined) this.#following.withLogs(this.#linesFrom);
  }

  close(): void {
    this.#following?.end();
    this.#aborter.abort();
    clearTimeout(this.#timer);
  }

  retry(): void {
    this.error.value = undefined;
    this.#following?.end();
    this.open();
  }

  /** Log lines are shown, up to this position: those that follow come with the events. */
  withLogs(position: number): void {
    this.#linesFrom = position;
    this.#following?.withLogs(position);
  }

  #take(frames: readonly Frame[]): void {
    const found = frames.filter((frame) => frame.id).map((frame) => readData(frame) as RunEvent);
    if (found.length) {
      this.events.add(found);
      this.film.follow(found);
    }
    if (frames.some((frame) => frame.event === "log")) this.lines.value += 1;
    if (frames.some((frame) => frame.event !== "log")) this.#wish();
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
      if (run.next_nodes && this.run.peek() === undefined) {
        this.run.value = run;
        this.nodes.value = nodes;
        await this.#drawn;
      }
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
      else if (!signal.aborted && this.#stream.peek().state === "ended") this.#wanted = true; // no event will come to ask
    } finally {
      this.#reading = false;
      this.#tookMs = performance.now() - begun;
      if (this.#wanted) this.#wish();
    }
  }

  async #readWhy(run: RunView): Promise<void> {
    if (hasEnded(run)) {
      this.why.value = new Map();
      this.reasons.value = new Map();
      this.first.value = null;
      return;
    }
    const found = await call("GET /api/v1/runs/{run_id}/explain", {
      path: { run_id: this.runId },
      signal: this.#aborter.signal,
    });
    this.why.value = new Map(Object.entries(found.nodes));
    this.reasons.value = new Map(Object.entries(found.reasons));
    this.first.value = found.first;
  }
}

/** How the page follows the run. The end is told first by the stream, and said when the state beside it is final too. */
export function liveOf(stream: Live, run: RunView | undefined): Live {
  return stream.state === "ended" && !(run && hasEnded(run)) ? { state: "live", seconds: 0 } : stream;
}

/** The event that an address names, if there is one with that number. */
export function readAt(text: string | null, last: number): number | undefined {
  if (text === null || !/^\d{1,15}$/.test(text) || last === 0) return undefined;
  return Math.max(1, Math.min(last, Number(text)));
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
