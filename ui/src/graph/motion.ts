// What moves on the wires: a dot goes along one when the run does, and again and again while what it leads to is executed.
import type { Wire } from "./model.ts";

/** How long a dot takes for a wire, in milliseconds. */
const TRIP_MS = 900;
const PAUSE_MS = 400;
/** More would be a swarm: then nothing moves. */
const MOST = 80;
/** Into how many straight pieces a curve is cut to go along it evenly. */
const PIECES = 12;

export interface Dot {
  readonly x: number;
  readonly y: number;
}

interface Trip {
  readonly begun: number;
}

export class Motion {
  #trips = new Map<Wire, Trip>();
  #paths = new Map<Wire, readonly (readonly [number, number, number])[]>();

  forget(): void {
    this.#trips.clear();
    this.#paths.clear();
  }

  /** The run went along these wires just now. */
  send(wires: readonly Wire[], now: number): void {
    if (this.#trips.size + wires.length > MOST) return;
    for (const wire of wires) this.#trips.set(wire, { begun: now });
  }

  /** The dots of this moment; `stays` says of a wire whether its dot begins again at the end. */
  dots(wires: readonly Wire[], now: number, stays: (wire: Wire) => boolean): Dot[] {
    const lasting = wires.filter(stays);
    if (lasting.length <= MOST) {
      for (const wire of lasting) if (!this.#trips.has(wire)) this.#trips.set(wire, { begun: now });
    }
    const found: Dot[] = [];
    const seen = new Set(wires);
    for (const [wire, trip] of this.#trips) {
      const passed = now - trip.begun;
      const again = seen.has(wire) && stays(wire);
      if (passed >= TRIP_MS && !again) this.#trips.delete(wire);
      else if (seen.has(wire)) {
        const part = (passed % (TRIP_MS + PAUSE_MS)) / TRIP_MS;
        if (part <= 1) found.push(this.#at(wire, part));
      }
    }
    return found;
  }

  /** Whether there is anything to be drawn after this moment. */
  get moves(): boolean {
    return this.#trips.size > 0;
  }

  #at(wire: Wire, part: number): Dot {
    let path = this.#paths.get(wire);
    if (!path) {
      path = measured(wire);
      this.#paths.set(wire, path);
    }
    return along(path, ease(part));
  }
}

const ease = (part: number): number => (part < 0.5 ? 2 * part * part : 1 - (2 - 2 * part) ** 2 / 2);

type Point = readonly [number, number, number];

/** Points of a wire, each with how far it is from the beginning. */
export function measured(wire: Wire): readonly Point[] {
  let [x = 0, y = 0] = wire.line.start;
  let length = 0;
  const found: Point[] = [[x, y, 0]];
  for (const [first = [], second = [], end = []] of wire.line.curves) {
    const from = [x, y] as const;
    for (let piece = 1; piece <= PIECES; piece++) {
      const t = piece / PIECES;
      const on = (axis: 0 | 1) =>
        (1 - t) ** 3 * from[axis] +
        3 * (1 - t) ** 2 * t * (first[axis] ?? 0) +
        3 * (1 - t) * t ** 2 * (second[axis] ?? 0) +
        t ** 3 * (end[axis] ?? 0);
      const next = [on(0), on(1)] as const;
      length += Math.hypot(next[0] - x, next[1] - y);
      [x, y] = next;
      found.push([x, y, length]);
    }
  }
  return found;
}

/** The point that is so far along the way, from 0 to 1. */
export function along(path: readonly Point[], part: number): Dot {
  const wanted = (path.at(-1)?.[2] ?? 0) * part;
  const index = Math.max(
    1,
    path.findIndex((point) => point[2] >= wanted),
  );
  const [before, after] = [path[index - 1], path[index]];
  if (!before || !after) return { x: before?.[0] ?? 0, y: before?.[1] ?? 0 };
  const share = after[2] === before[2] ? 0 : Math.min(1, (wanted - before[2]) / (after[2] - before[2]));
  return { x: before[0] + (after[0] - before[0]) * share, y: before[1] + (after[1] - before[1]) * share };
}
