// The film of a run: every change of a node as columns of numbers, so that any moment is shown without asking the server.
import type { Schemas } from "../api/call.ts";

export type FilmPage = Schemas["Film"];
export type NodeView = Schemas["Node"];
export type Fate = "taken" | "skipped" | "open";
export type Fates = (from: string, to: string) => Fate;

const FATES: readonly Fate[] = ["open", "taken", "skipped"];

/** Numbers in a row that grows. Going through a million of them takes a few milliseconds, so that no moment has to be kept. */
class Column {
  #held = new Float64Array(256);
  length = 0;

  push(value: number): void {
    if (this.length === this.#held.length) {
      const larger = new Float64Array(this.length * 2);
      larger.set(this.#held);
      this.#held = larger;
    }
    this.#held[this.length++] = value;
  }

  at(index: number): number {
    return this.#held[index] ?? 0;
  }

  /** How many entries are at most `value`, where they never fall. */
  upTo(value: number): number {
    let [low, high] = [0, this.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.at(middle) <= value) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

export interface Row {
  readonly seq: number;
  readonly at: number;
  readonly node: number;
  readonly scope: number;
  readonly item: number;
  readonly visit: number;
  readonly attempt: number;
  readonly state: string;
  /** When the attempt had begun, in milliseconds since 1970; undefined where that is not known. */
  readonly started: number | undefined;
}

export class Film {
  names: readonly string[] = [];
  states: readonly string[] = [];
  /** The last event that the film has. */
  lastSeq = 0;
  /** The iterations that rows number. */
  readonly scopes: (readonly number[])[] = [[]];
  #scopeNumbers = new Map<string, number>([["", 0]]);
  #seq = new Column();
  #at = new Column();
  #node = new Column();
  #scope = new Column();
  #item = new Column();
  #visit = new Column();
  #attempt = new Column();
  #state = new Column();
  #started = new Column();
  #shown = new Column();
  #turnSeq = new Column();
  #turnEdge = new Column();
  #turnFate = new Column();
  #edges = new Map<string, Map<string, number>>();
  #edgeCount = 0;

  get length(): number {
    return this.#seq.length;
  }

  /** Add what follows what is there. */
  add(page: FilmPage): void {
    this.names = page.nodes;
    this.states = page.states;
    const scopes = page.scopes.map((scope) => this.#numberOf(scope));
    let [seq, at] = [0, 0];
    for (let index = 0; index < page.seq.length; index++) {
      seq += page.seq[index]!;
      at += page.at[index]!;
      const started = page.started[index];
      this.#seq.push(seq);
      this.#at.push(at);
      this.#node.push(page.node[index]!);
      this.#scope.push(scopes[page.scope[index]!]!);
      this.#item.push(page.item[index]!);
      this.#visit.push(page.visit[index]!);
      this.#attempt.push(page.attempt[index]!);
      this.#state.push(page.state[index]!);
      this.#started.push(started === null || started === undefined ? -1 : at - started);
      this.#shown.push(page.shown[index]!);
    }
    this.#addTurns(page);
    this.lastSeq = page.next_cursor === null ? page.last_seq : Number(page.next_cursor);
  }

  #addTurns({ edges, nodes }: FilmPage): void {
    let seq = 0;
    for (let index = 0; index < edges.seq.length; index++) {
      seq += edges.seq[index]!;
      this.#turnSeq.push(seq);
      this.#turnEdge.push(this.#edge(nodes[edges.from[index]!] ?? "", nodes[edges.to[index]!] ?? ""));
      this.#turnFate.push(edges.fate[index]!);
    }
  }

  #numberOf(scope: readonly number[]): number {
    const key = scope.join(",");
    let found = this.#scopeNumbers.get(key);
    if (found === undefined) {
      found = this.scopes.push(scope) - 1;
      this.#scopeNumbers.set(key, found);
    }
    return found;
  }

  #edge(from: string, to: string): number {
    let onward = this.#edges.get(from);
    if (!onward) {
      onward = new Map();
      this.#edges.set(from, onward);
    }
    let found = onward.get(to);
    if (found === undefined) {
      found = this.#edgeCount++;
      onward.set(to, found);
    }
    return found;
  }

  row(index: number): Row {
    const started = this.#started.at(index);
    return {
      seq: this.#seq.at(index),
      at: this.#at.at(index),
      node: this.#node.at(index),
      scope: this.#scope.at(index),
      item: this.#item.at(index),
      visit: this.#visit.at(index),
      attempt: this.#attempt.at(index),
      state: this.states[this.#state.at(index)] ?? "pending",
      started: started < 0 ? undefined : started,
    };
  }

  /** What each node shows right after an event. Nodes that no row is about are pending. */
  nodesAt(seq: number): Map<string, NodeView> {
    const last = new Int32Array(this.names.length).fill(-1);
    const count = this.#seq.upTo(seq);
    for (let index = 0; index < count; index++) if (this.#shown.at(index)) last[this.#node.at(index)] = index;
    const found = new Map<string, NodeView>();
    for (const [number, name] of this.names.entries()) {
      const index = last[number]!;
      found.set(name, index < 0 ? { state: "pending", visit: 0, attempt: 0 } : this.#view(index));
    }
    return found;
  }

  #view(index: number): NodeView {
    const row = this.row(index);
    const scope = this.scopes[row.scope]!;
    return {
      state: row.state as NodeView["state"],
      visit: row.visit,
      attempt: row.attempt,
      ...(scope.length ? { scope: [...scope] } : {}),
      ...(row.started === undefined ? {} : { started_at: row.started / 1000 }),
    };
  }

  /** What became of the edges right after an event. */
  fatesAt(seq: number): Fates {
    const fates = new Uint8Array(this.#edgeCount);
    const count = this.#turnSeq.upTo(seq);
    for (let index = 0; index < count; index++) fates[this.#turnEdge.at(index)] = this.#turnFate.at(index);
    return (from, to) => {
      const edge = this.#edges.get(from)?.get(to);
      return edge === undefined ? "open" : FATES[fates[edge]!]!;
    };
  }

  /** The edges that were taken up to an event. */
  taken(seq: number): [string, string][] {
    const fates = this.fatesAt(seq);
    const found: [string, string][] = [];
    for (const [from, onward] of this.#edges)
      for (const to of onward.keys()) if (fates(from, to) === "taken") found.push([from, to]);
    return found;
  }

  /** When an event was, in seconds; that of the change before it where it changed no node. */
  timeAt(seq: number): number | undefined {
    const count = this.#seq.upTo(seq);
    return count ? this.#at.at(count - 1) / 1000 : undefined;
  }

  /** The end of the step after an event: what one command changed has one time. */
  nextStep(seq: number): number {
    let index = this.#seq.upTo(seq);
    if (index >= this.length) return this.lastSeq;
    const at = this.#at.at(index);
    while (index + 1 < this.length && this.#at.at(index + 1) === at) index += 1;
    return this.#seq.at(index);
  }

  /** The end of the step before the one of an event. */
  previousStep(seq: number): number {
    let index = this.#seq.upTo(seq) - 1;
    const at = this.#at.at(index);
    while (index >= 0 && this.#at.at(index) === at) index -= 1;
    return index < 0 ? 1 : this.#seq.at(index);
  }

  /** The event after which nothing more changed about one visit of a node. */
  lastOf(node: string, visit: number): number | undefined {
    const wanted = this.names.indexOf(node);
    for (let index = this.length - 1; index >= 0; index--)
      if (this.#node.at(index) === wanted && this.#visit.at(index) === visit && this.#item.at(index) < 0)
        return this.#seq.at(index);
    return undefined;
  }

  /** How many changes each of `buckets` equal parts of the events has. */
  density(buckets: number): number[] {
    const found = new Array<number>(buckets).fill(0);
    for (let index = 0; index < this.length; index++) {
      const bucket = Math.floor(((this.#seq.at(index) - 1) / Math.max(1, this.lastSeq)) * buckets);
      found[Math.min(buckets - 1, bucket)]! += 1;
    }
    return found;
  }

  /** The events after which a node is in one of some states. */
  seqsOf(states: ReadonlySet<string>, most: number): number[] {
    const wanted = new Set(this.states.flatMap((state, number) => (states.has(state) ? [number] : [])));
    const found: number[] = [];
    for (let index = 0; index < this.length && found.length < most; index++) {
      const seq = this.#seq.at(index);
      if (wanted.has(this.#state.at(index)) && found.at(-1) !== seq) found.push(seq);
    }
    return found;
  }
}
