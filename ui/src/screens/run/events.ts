// The journal of the run as far as it was read: pages are asked for when they are looked at, the newest come by the stream.
import { batch, signal } from "@preact/signals";
import { call, type Schemas } from "../../api/call.ts";

export type RunEvent = Schemas["Event"];

const PAGE = 200;
const TOLD_MS = 250;

export class EventBook {
  /** The number of the newest event; numbers have no gaps. */
  readonly last = signal(0);
  /** Grows whenever events were added. */
  readonly version = signal(0);
  readonly error = signal<unknown>(undefined);
  readonly runId: string;
  #events = new Map<number, RunEvent>();
  #asked = new Set<number>();
  #newest = 0;
  /** How many events there were when it was last told of. */
  #told = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #abort: AbortSignal;

  constructor(runId: string, abort: AbortSignal) {
    this.runId = runId;
    this.#abort = abort;
  }

  get(seq: number): RunEvent | undefined {
    return this.#events.get(seq);
  }

  get known(): number {
    return this.#events.size;
  }

  add(events: readonly RunEvent[]): void {
    for (const event of events) {
      this.#events.set(event.seq, event);
      if (event.seq > this.#newest) this.#newest = event.seq;
    }
    if (this.#timer !== undefined) return;
    // What is told of at once is told of, and then at most four times a second: lists are drawn anew each time.
    this.#tell();
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#told < this.#events.size) this.#tell();
    }, TOLD_MS);
  }

  #tell(): void {
    this.#told = this.#events.size;
    batch(() => {
      if (this.#newest > this.last.peek()) this.last.value = this.#newest;
      this.version.value += 1;
    });
  }

  /** The journal has so many events, as another answer says. */
  grow(last: number): void {
    if (last > this.last.peek()) this.last.value = last;
  }

  /** Have the events from one number to another at hand soon. */
  want(from: number, to: number): void {
    for (let page = Math.floor((Math.max(1, from) - 1) / PAGE); page * PAGE < Math.min(to, this.last.peek()); page++) {
      if (!this.#isWhole(page)) void this.#read(page);
    }
  }

  retry(): void {
    this.error.value = undefined;
    this.version.value += 1;
  }

  #isWhole(page: number): boolean {
    const end = Math.min((page + 1) * PAGE, this.last.peek());
    for (let seq = page * PAGE + 1; seq <= end; seq++) if (!this.#events.has(seq)) return false;
    return true;
  }

  async #read(page: number): Promise<void> {
    if (this.#asked.has(page) || this.error.peek() !== undefined) return;
    this.#asked.add(page);
    try {
      const path = { run_id: this.runId };
      const query = { after: page * PAGE, limit: PAGE, outputs: false };
      const found = await call("GET /api/v1/runs/{run_id}/events", { path, query, signal: this.#abort });
      this.grow(found.last_seq);
      this.add(found.items);
    } catch (error) {
      if (!this.#abort.aborted) this.error.value = error;
    } finally {
      this.#asked.delete(page);
    }
  }

  /** Every event that is at hand, oldest first. */
  *all(): Iterable<RunEvent> {
    for (let seq = 1; seq <= this.last.value; seq++) {
      const event = this.#events.get(seq);
      if (event) yield event;
    }
  }

  /** One event with everything it holds. */
  async whole(seq: number, signal: AbortSignal): Promise<RunEvent | undefined> {
    const path = { run_id: this.runId };
    const found = await call("GET /api/v1/runs/{run_id}/events", { path, query: { after: seq - 1, limit: 1 }, signal });
    return found.items[0];
  }
}
