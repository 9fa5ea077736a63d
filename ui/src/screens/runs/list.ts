// The runs that were read so far, page by page, and what is new since: kept while the reader looks at one of them.
import { computed, signal } from "@preact/signals";
import { type Answer, ask, call, now, type Schemas } from "../../api/call.ts";
import { type Filter, toConditions } from "./filter.ts";

export type Run = Schemas["RunSummary"];
type Page = Answer<"GET /api/v1/runs">;

const PAGE = 100;

/** Put the newest page before what is shown: rows that are known change in place; others are new. */
export function mergeFirst(shown: readonly Run[], first: readonly Run[]): { rows: Run[]; fresh: Run[] } {
  const found = new Map(first.map((run) => [run.run_id, run]));
  const known = new Set(shown.map((run) => run.run_id));
  return {
    rows: shown.map((run) => found.get(run.run_id) ?? run),
    fresh: first.filter((run) => !known.has(run.run_id)),
  };
}

export class RunList {
  readonly rows = signal<readonly Run[]>([]);
  readonly fresh = signal<readonly Run[]>([]);
  readonly next = signal<string | null>(null);
  readonly error = signal<unknown>(undefined);
  readonly busy = signal(true);
  readonly more = computed(() => this.next.value !== null);
  readonly filter: Filter;
  #etag: string | undefined;
  #reading = false;

  constructor(filter: Filter) {
    this.filter = filter;
  }

  #query(cursor?: string) {
    const order = this.filter.byEnd ? "ended" : this.filter.sort ? "oldest" : undefined;
    return { ...toConditions(this.filter, now()), order: order as never, limit: PAGE, cursor };
  }

  async begin(abort: AbortSignal): Promise<void> {
    this.busy.value = true;
    try {
      const found = await ask("GET /api/v1/runs", { query: this.#query(), signal: abort });
      const page = found.content as Page;
      this.#etag = found.etag;
      this.rows.value = page.items;
      this.next.value = page.next_cursor;
      this.error.value = undefined;
    } catch (error) {
      if (!abort.aborted) this.error.value = error;
    } finally {
      if (!abort.aborted) this.busy.value = false;
    }
  }

  /** Look at the first page again. `top`: the reader is at the top, so new rows may come in at once. */
  async look(top: boolean): Promise<void> {
    const found = await ask("GET /api/v1/runs", { query: this.#query() }, this.#etag);
    if (found.unchanged) return;
    this.#etag = found.etag;
    const page = found.content as Page;
    if (this.filter.sort) {
      // The newest are at the end, and come in by scrolling there.
      this.rows.value = mergeFirst(this.rows.peek(), page.items).rows;
      return;
    }
    if (this.rows.peek().length <= PAGE && top) {
      this.rows.value = page.items;
      this.next.value = page.next_cursor;
      this.fresh.value = [];
      return;
    }
    const merged = mergeFirst(this.rows.peek(), page.items);
    this.rows.value = merged.rows;
    this.fresh.value = merged.fresh;
    if (top) this.takeFresh();
  }

  takeFresh(): void {
    this.rows.value = [...this.fresh.peek(), ...this.rows.peek()];
    this.fresh.value = [];
  }

  async readMore(): Promise<void> {
    const cursor = this.next.peek();
    if (cursor === null || this.#reading) return;
    this.#reading = true;
    try {
      const page = await call("GET /api/v1/runs", { query: this.#query(cursor) });
      const known = new Set(this.rows.peek().map((run) => run.run_id));
      this.rows.value = [...this.rows.peek(), ...page.items.filter((run) => !known.has(run.run_id))];
      this.next.value = page.next_cursor;
    } finally {
      this.#reading = false;
    }
  }
}
