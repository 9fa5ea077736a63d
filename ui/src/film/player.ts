// Plays the film of a run: from step to step, as fast as is wished; nobody waits for what was waited for.
import { signal } from "@preact/signals";
import type { RunStore } from "../screens/run/store.ts";
import { look } from "./look.ts";

const LONGEST_MS = 1000;
const SHORTEST_MS = 40;

export class Player {
  readonly playing = signal(false);
  readonly speed = signal(1);
  #store: RunStore;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(store: RunStore) {
    this.#store = store;
  }

  toggle(): void {
    if (this.playing.peek()) this.stop();
    else this.#start();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.playing.value = false;
  }

  #start(): void {
    this.playing.value = true;
    if (this.#store.at.peek() === undefined) look(1);
    this.#next();
  }

  #next(): void {
    const { film } = this.#store.film;
    const here = this.#store.at.peek() ?? 1;
    const next = film.nextStep(here);
    if (next >= film.lastSeq) {
      look(undefined);
      this.stop();
      return;
    }
    const pause = ((film.timeAt(next) ?? 0) - (film.timeAt(here) ?? 0)) * 1000;
    this.#timer = setTimeout(
      () => {
        look(next);
        this.#next();
      },
      Math.max(SHORTEST_MS, Math.min(LONGEST_MS, pause) / this.speed.peek()),
    );
  }
}
