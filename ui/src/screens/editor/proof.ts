// Whether a run can take a change of its definition: asked for the change as it is, and again whenever the run moves.
import { effect, signal } from "@preact/signals";
import { call, type Schemas } from "../../api/call.ts";
import { followRun, type RunFollowing } from "../../api/stream.ts";
import type { Definition } from "./model.ts";
import { merge, movedNodes, type Operation, same } from "./patch.ts";
import type { Base, Session } from "./session.ts";
import { printDefinition } from "./yaml.ts";

const PAUSE_MS = 200;
const ENDED = new Set(["completed", "failed", "cancelled", "rolled_back"]);

export interface Proven {
  readonly result: Schemas["PatchResult"];
  /** For which change, and at which event of the run. */
  readonly patch: readonly Operation[];
  readonly seq: number;
}

type Found = Schemas["RunDefinition"];

const baseOf = (found: Found): Base => ({
  definition: found.definition as Definition,
  version: found.patches.length,
  text: printDefinition(found.definition as Definition),
});

export class Proof {
  readonly proven = signal<Proven | undefined>(undefined);
  readonly error = signal<unknown>(undefined);
  /** The number of the last event of the run. */
  readonly seq = signal(0);
  readonly ended = signal(false);
  readonly states = signal<ReadonlyMap<string, string>>(new Map());
  /** How often the run was patched by others meanwhile. */
  readonly rebased = signal(0);
  /** Which nodes those patches changed. */
  readonly moved = signal<readonly string[]>([]);
  /** What the run follows now, as long as the text here has problems and cannot be brought together with it. */
  readonly theirs = signal<Base | undefined>(undefined);
  readonly runId: string;
  #session: Session;
  #following: RunFollowing | undefined;
  #stop: (() => void) | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #asking: Promise<void> | undefined;
  #again = false;
  #applying = false;
  /** The run was patched by another, and what it follows now was not read yet. */
  #patched = false;
  #over = false;

  constructor(runId: string, session: Session) {
    this.runId = runId;
    this.#session = session;
  }

  /** False where the definition of the run is no longer kept. */
  async open(): Promise<boolean> {
    const path = { run_id: this.runId };
    const page = await call("GET /api/v1/runs/{run_id}/events", { path, query: { limit: 1, outputs: false } });
    const found = await call("GET /api/v1/runs/{run_id}/definition", { path });
    if (!found.definition) return false;
    if (this.#over) return true;
    const drafted = await this.#readDrafted(found);
    if (this.#over) return true;
    this.seq.value = page.last_seq;
    this.#session.begin(baseOf(drafted ?? found));
    if (drafted) this.#note(baseOf(found));
    await this.#readStates();
    this.#following = followRun(this.runId, page.last_seq, {
      onFrames: (frames) => {
        const events = frames.filter((frame) => frame.id);
        if (!events.length) return;
        this.seq.value = Number(events.at(-1)!.id);
        if (events.some((frame) => frame.event === "run.patched")) this.#patched = true;
        void this.#readStates();
        this.wish();
      },
      onState: () => {},
      onError: (error) => {
        this.error.value = error;
      },
    });
    this.#stop = effect(() => {
      const { checking, definition, patch } = this.#session;
      if (checking.value || !definition.value) return;
      if (this.theirs.value || patch.value?.length) this.wish();
    });
    return true;
  }

  end(): void {
    this.#over = true;
    this.#following?.end();
    this.#stop?.();
    clearTimeout(this.#timer);
  }

  /** Ask soon. */
  wish(): void {
    if (this.#over) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#ask(), PAUSE_MS);
  }

  /** Apply the change. Nothing is asked meanwhile: the run may have taken it before that is answered. */
  async apply(reason: string): Promise<boolean> {
    this.#applying = true;
    try {
      await this.#asking;
      const done = await call("POST /api/v1/runs/{run_id}/patch", {
        path: { run_id: this.runId },
        body: { patch: this.#session.patch.peek() as unknown[], reason, dry_run: false } as never,
      });
      if (done.applied) this.end();
      return done.applied;
    } finally {
      this.#applying = false;
      this.wish();
    }
  }

  async #ask(): Promise<void> {
    if (this.#over || this.#applying) return;
    if (this.#asking) {
      this.#again = true;
      return;
    }
    this.#again = false;
    const seq = this.seq.peek();
    this.#asking = this.#settle(seq).then(
      () => {
        this.error.value = undefined;
      },
      (caught: unknown) => {
        this.error.value = caught;
      },
    );
    await this.#asking;
    this.#asking = undefined;
    if (this.#again || seq !== this.seq.peek()) this.wish();
  }

  /** First what the run follows, then whether it can take what is changed of that. */
  async #settle(seq: number): Promise<void> {
    if (this.#patched) {
      this.#patched = false;
      try {
        const found = await call("GET /api/v1/runs/{run_id}/definition", { path: { run_id: this.runId } });
        if (found.definition) this.#note(baseOf(found));
      } catch (caught) {
        this.#patched = true;
        throw caught;
      }
    }
    this.#bringTogether();
    const patch = this.#session.patch.peek();
    if (this.#patched || this.theirs.peek() || !patch?.length || this.ended.peek()) return;
    const result = await call("POST /api/v1/runs/{run_id}/patch", {
      path: { run_id: this.runId },
      body: { patch: patch as unknown[], reason: "", dry_run: true } as never,
    });
    this.proven.value = { result, patch, seq };
    if (patch !== this.#session.patch.peek()) this.#again = true;
  }

  async #readStates(): Promise<void> {
    try {
      const run = await call("GET /api/v1/runs/{run_id}", { path: { run_id: this.runId }, query: { outputs: false } });
      this.ended.value = ENDED.has(run.state);
      const begun = Object.entries(run.nodes).filter(([, node]) => node.state !== "pending");
      this.states.value = new Map(begun.map(([name, node]) => [name, node.state]));
    } catch {
      // the banner tells that the server is silent; the next event reads again
    }
  }

  /** The definition that a draft was made of, if the run was patched since. */
  async #readDrafted(found: Found): Promise<Found | undefined> {
    const drafted = this.#session.drafted;
    const next = drafted === undefined ? undefined : found.patches[drafted];
    if (!next) return undefined;
    const path = { run_id: this.runId };
    const older = await call("GET /api/v1/runs/{run_id}/definition", { path, query: { at: next.seq - 1 } });
    return older.definition ? older : undefined;
  }

  #note(theirs: Base): void {
    const names = movedNodes(this.#session.base.peek().definition, theirs.definition);
    this.moved.value = names;
    this.theirs.value = theirs;
  }

  /** Both changes together; where both changed the same, this one is kept and can be seen in the text. A text that has problems, or of
   * which that is not known yet, stays as it is. */
  #bringTogether(): void {
    const { base, checking, definition } = this.#session;
    const [mine, theirs] = [definition.peek(), this.theirs.peek()];
    if (!mine || !theirs || checking.peek()) return;
    const merged = merge(base.peek().definition, mine, theirs.definition, () => "mine");
    this.theirs.value = undefined;
    this.#session.rebase(theirs, same(merged.value, mine) ? this.#session.text.peek() : printDefinition(merged.value));
    this.rebased.value += 1;
  }
}
