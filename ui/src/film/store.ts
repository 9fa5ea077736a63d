// The film of the run on the screen: read when the page opens, and its end again as the journal grows.
import { signal } from "@preact/signals";
import { call, type Schemas } from "../api/call.ts";
import { type Fates, Film, type NodeView } from "./film.ts";
import { type Mark, Phases, TURNING_POINTS } from "./phases.ts";

const SOONEST_MS = 1000;
const MOST_MARKS = 400;
const FAILURES: ReadonlySet<string> = new Set(["failed", "parked"]);
const RETRIES: ReadonlySet<string> = new Set(["retrying"]);

export class FilmStore {
  readonly film = new Film();
  readonly phases = new Phases();
  /** Grows whenever rows were added. */
  readonly version = signal(0);
  readonly error = signal<unknown>(undefined);
  readonly runId: string;
  #abort: AbortSignal;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #reading: Promise<number> | undefined;
  #wanted = false;
  #tookMs = 0;
  /** Whether the turning points up to the beginning of the stream are known: those after it come with it. */
  #phased = false;

  constructor(runId: string, abort: AbortSignal) {
    this.runId = runId;
    this.#abort = abort;
  }

  /** Read what is missing; the number of the last event. */
  read(): Promise<number> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
      if (this.#wanted) this.#wish();
    });
    return this.#reading;
  }

  async #read(): Promise<number> {
    this.#wanted = false;
    const begun = performance.now();
    const path = { run_id: this.runId };
    try {
      for (let more = true; more; ) {
        const query = { after: this.film.lastSeq };
        const page = await call("GET /api/v1/runs/{run_id}/film", { path, query, signal: this.#abort });
        this.film.add(page);
        more = page.next_cursor !== null;
      }
      if (!this.#phased) await this.#readPhases();
      this.error.value = undefined;
      this.version.value += 1;
    } catch (error) {
      if (!this.#abort.aborted) this.error.value = error;
    }
    this.#tookMs = performance.now() - begun;
    return this.film.lastSeq;
  }

  async #readPhases(): Promise<void> {
    const path = { run_id: this.runId };
    for (let after = 0, more = true; more; ) {
      const query = { after, limit: 1000, outputs: false, type: [...TURNING_POINTS] };
      const page = await call("GET /api/v1/runs/{run_id}/events", { path, query, signal: this.#abort });
      this.phases.add(page.items);
      more = page.next_cursor !== null;
      after = Number(page.next_cursor ?? 0);
    }
    this.#phased = true;
  }

  /** Events came: read the end of the film soon, at most once a second, and at most a fifth of the time. */
  follow(events: readonly Schemas["Event"][]): void {
    if (this.#phased) this.phases.add(events);
    this.#wish();
  }

  #wish(): void {
    if (this.#reading) {
      this.#wanted = true;
      return;
    }
    this.#timer ??= setTimeout(
      () => {
        this.#timer = undefined;
        if (!this.#abort.aborted) void this.read();
      },
      Math.max(SOONEST_MS, this.#tookMs * 4),
    );
  }

  nodesAt(seq: number): ReadonlyMap<string, NodeView> {
    return this.version.value ? this.film.nodesAt(seq) : new Map();
  }

  fatesAt(seq: number): Fates | undefined {
    return this.version.value ? this.film.fatesAt(seq) : undefined;
  }

  /** The events that a reader looks for, in order; so many of a kind. */
  marks(): Mark[] {
    if (!this.version.value) return [];
    const failures = this.film.seqsOf(FAILURES, MOST_MARKS).map((seq): Mark => ({ seq, kind: "failure" }));
    const retries = this.film.seqsOf(RETRIES, MOST_MARKS).map((seq): Mark => ({ seq, kind: "retry" }));
    return [...failures, ...retries, ...this.phases.marks.slice(-MOST_MARKS)].sort((one, two) => one.seq - two.seq);
  }
}
