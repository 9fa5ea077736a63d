// One editing: the text, what the server says of it, and the draft that outlives the page.
import { batch, computed, signal } from "@preact/signals";
import { call, type Schemas } from "../../api/call.ts";
import type { Graph } from "../../graph/drawing.ts";
import type { Definition } from "./model.ts";
import { makePatch } from "./patch.ts";

export type Problem = Schemas["Problem"];

const PAUSE_MS = 250;

export interface Base {
  readonly definition: Definition;
  /** 0: it was never saved. */
  readonly version: number;
  readonly text: string;
}

interface Draft {
  readonly version: number;
  readonly text: string;
}

export class Session {
  readonly text = signal("");
  readonly problems = signal<readonly Problem[]>([]);
  readonly checking = signal(false);
  readonly error = signal<unknown>(undefined);
  /** The text as a definition; undefined while it has problems. */
  readonly definition = signal<Definition | undefined>(undefined);
  /** The graph of the last text that had none. */
  readonly graph = signal<Graph | undefined>(undefined);
  readonly restored = signal(false);
  readonly base = signal<Base>({ definition: {}, version: 0, text: "" });
  readonly errors = computed(() => this.problems.value.filter((one) => one.severity !== "warning"));
  readonly patch = computed(() =>
    this.definition.value ? makePatch(this.base.value.definition, this.definition.value) : undefined,
  );
  /** Puts another text into the editor that is on the screen, so that it can be undone there. */
  show: ((text: string) => void) | undefined;
  readonly #key: string;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #aborter: AbortController | undefined;

  constructor(key: string) {
    this.#key = `draft ${key}`;
  }

  /** The version that a draft was made of, if there is one. */
  get draftOf(): number | undefined {
    return this.drafted || undefined;
  }

  /** The same, where a draft may be of version 0. */
  get drafted(): number | undefined {
    return this.#readDraft()?.version;
  }

  /** Begin from what is there, or from the draft that was made of it. */
  begin(base: Base): void {
    this.base.value = base;
    const draft = this.#readDraft();
    this.restored.value = draft !== undefined && draft.version === base.version && draft.text !== base.text;
    this.text.value = this.restored.value ? draft!.text : base.text;
    void this.check();
  }

  /** Go on from another base with a text that has its changes. Until that is checked there is no definition: the one before lacks them. */
  rebase(base: Base, text: string): void {
    batch(() => {
      this.base.value = base;
      this.definition.value = undefined;
      this.show?.(text);
      this.write(text);
    });
  }

  write(text: string): void {
    this.text.value = text;
    this.#keepDraft();
    this.#aborter?.abort(); // it would answer for the text before
    this.checking.value = true;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.check(), PAUSE_MS);
  }

  /** Ask the server what it makes of the text; the question before is not waited for. */
  async check(): Promise<void> {
    this.#aborter?.abort();
    const own = new AbortController();
    this.#aborter = own;
    this.checking.value = true;
    try {
      const found = await call("POST /api/v1/workflows/validate", {
        query: { graph: true, definition: true },
        raw: this.text.peek(),
        headers: { "Content-Type": "application/yaml" },
        signal: own.signal,
      });
      this.problems.value = found.problems;
      this.definition.value = found.valid && found.definition ? found.definition : undefined;
      if (found.graph) this.graph.value = found.graph;
      this.error.value = undefined;
      this.checking.value = false;
    } catch (caught) {
      if (own.signal.aborted) return;
      this.error.value = caught;
      this.definition.value = undefined;
      this.checking.value = false;
    }
  }

  /** What was edited is kept elsewhere now. */
  forget(): void {
    clearTimeout(this.#timer);
    try {
      sessionStorage.removeItem(this.#key);
    } catch {
      // a browser may forbid it
    }
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#aborter?.abort();
  }

  #keepDraft(): void {
    try {
      const draft: Draft = { version: this.base.peek().version, text: this.text.peek() };
      sessionStorage.setItem(this.#key, JSON.stringify(draft));
    } catch {
      // it is kept until the page is left
    }
  }

  #readDraft(): Draft | undefined {
    try {
      const found = JSON.parse(sessionStorage.getItem(this.#key) ?? "null") as Draft | null;
      return found && typeof found.text === "string" && typeof found.version === "number" ? found : undefined;
    } catch {
      return undefined;
    }
  }
}
