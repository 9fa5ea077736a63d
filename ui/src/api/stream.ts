// Live events: one stream for the run on the screen, none while the tab is hidden. It resumes where it ended.

import { addressOf, refusal, send, Unreachable } from "./call.ts";
import { parse } from "./exact.ts";

export interface Frame {
  readonly id: string;
  readonly event: string;
  readonly data: string;
}

/** Reads server-sent events from pieces of text, wherever they were cut. */
export class FrameReader {
  #rest = "";
  #data: string[] = [];
  #event = "";
  #id = "";

  read(piece: string): Frame[] {
    const found: Frame[] = [];
    const lines = (this.#rest + piece).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") {
        if (this.#data.length)
          found.push({ id: this.#id, event: this.#event || "message", data: this.#data.join("\n") });
        this.#data = [];
        this.#event = "";
        this.#id = "";
        continue;
      }
      const colon = line.indexOf(":");
      if (colon === 0) continue;
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
      if (name === "data") this.#data.push(value);
      else if (name === "event") this.#event = value;
      else if (name === "id") this.#id = value;
    }
    return found;
  }
}

export type StreamState = "connecting" | "live" | "waiting" | "hidden" | "ended";

export interface Listener {
  readonly onFrames: (frames: readonly Frame[]) => void;
  readonly onState: (state: StreamState, seconds?: number) => void;
  readonly onError: (error: unknown) => void;
}

const HIDDEN_SECONDS = 5;
const LONGEST_PAUSE_SECONDS = 30;
const FRAMES_AT_ONCE = 2000;

export interface Following {
  /** Ask anew: what is asked for has changed. */
  readonly again: () => void;
  readonly end: () => void;
}

/** What is followed: where it goes on, and what of it counts. */
export interface Source {
  readonly address: () => string;
  /** Whether a frame was not there before. It is told of each one, in order. */
  readonly isNew: (frame: Frame) => boolean;
  /** Whether the last frame was the last one there is. */
  readonly isOver: () => boolean;
}

/** Follow one stream for as long as it is wanted: through connections that are cut, and not while the tab is hidden. */
export function follow(source: Source, listener: Listener): Following {
  let pause = 1;
  let aborter: AbortController | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let ended = false;

  async function connect(): Promise<void> {
    if (ended || document.hidden || aborter) return;
    const own = new AbortController();
    aborter = own;
    listener.onState("connecting");
    try {
      const response = await send(source.address(), {
        signal: own.signal,
        headers: { "X-Perdure-Request": "1" },
        cache: "no-store",
      });
      if (response.status === 204) return finish();
      if (!response.ok || !response.body) throw refusal(response, await response.text());
      listener.onState("live");
      if (await take(response.body)) return finish();
      throw new Unreachable();
    } catch (error) {
      if (own.signal.aborted || ended) return;
      if (!(error instanceof Unreachable)) {
        ended = true;
        listener.onError(error);
        return;
      }
      retry();
    } finally {
      if (aborter === own) aborter = undefined;
    }
  }

  /** True where the stream ended as it should. */
  async function take(body: ReadableStream<Uint8Array>): Promise<boolean> {
    const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
    const frames = new FrameReader();
    let seen = false;
    for (;;) {
      const { done, value } = await reader.read().catch(() => ({ done: true, value: undefined }));
      if (done || value === undefined) return seen && source.isOver();
      const found = frames.read(value);
      for (let start = 0; start < found.length; start += FRAMES_AT_ONCE) {
        const part = found.slice(start, start + FRAMES_AT_ONCE).filter(source.isNew);
        if (part.length) listener.onFrames(part);
        if (start + FRAMES_AT_ONCE < found.length) await new Promise((resolve) => setTimeout(resolve));
      }
      seen = true;
      pause = 1;
    }
  }

  function retry(): void {
    const seconds = pause * (0.75 + Math.random() / 2);
    pause = Math.min(pause * 2, LONGEST_PAUSE_SECONDS);
    listener.onState("waiting", seconds);
    clearTimeout(timer);
    timer = setTimeout(connect, seconds * 1000);
  }

  function finish(): void {
    ended = true;
    listener.onState("ended");
  }

  function onVisibility(): void {
    clearTimeout(timer);
    if (document.hidden) {
      timer = setTimeout(() => {
        aborter?.abort();
        aborter = undefined;
        if (!ended) listener.onState("hidden");
      }, HIDDEN_SECONDS * 1000);
    } else void connect();
  }

  function again(): void {
    if (ended || !aborter) return;
    aborter.abort();
    aborter = undefined;
    void connect();
  }

  function leave(): void {
    ended = true;
    clearTimeout(timer);
    aborter?.abort();
    document.removeEventListener("visibilitychange", onVisibility);
    removeEventListener("pagehide", leave);
  }

  document.addEventListener("visibilitychange", onVisibility);
  addEventListener("pagehide", leave);
  void connect();
  return { again, end: leave };
}

export interface RunFollowing {
  /** Log lines are shown from this position on: from now on they come too. */
  readonly withLogs: (position: number) => void;
  readonly end: () => void;
}

/** Follow a run from the event after `after`. */
export function followRun(runId: string, after: number, listener: Listener): RunFollowing {
  let last = after;
  let lines: number | undefined;
  let over = false;
  const address = () => {
    const wanted = lines === undefined ? "working" : "working,logs";
    const query = { after: last, outputs: false, with: wanted, logs_after: lines };
    return addressOf("GET /api/v1/runs/{run_id}/stream", { path: { run_id: runId }, query });
  };
  const isNew = (frame: Frame): boolean => {
    if (!frame.id) {
      // A stream that is opened again goes on after the last line that came.
      if (frame.event === "log") lines = (readData(frame) as { position: number }).position;
      return true;
    }
    const seq = Number(frame.id);
    if (seq <= last) return false;
    last = seq;
    over = /^run\.(completed|failed|cancelled|rolled_back)$/.test(frame.event);
    return true;
  };
  const following = follow({ address, isNew, isOver: () => over }, listener);
  const withLogs = (position: number): void => {
    if (lines !== undefined) return;
    lines = position;
    following.again();
  };
  return { withLogs, end: following.end };
}

/** Follow what a node yields at one of its ports, from the beginning. */
export function followChunks(about: { run_id: string; node: string }, port: string, listener: Listener): Following {
  let after = "";
  let over = false;
  const address = () =>
    addressOf("GET /api/v1/runs/{run_id}/nodes/{node}/chunks", {
      path: about,
      query: { port, after: after || undefined },
    });
  const isNew = (frame: Frame): boolean => {
    over = frame.event === "end";
    if (!over && isBefore(frame.id, after)) return false;
    after = frame.id;
    return true;
  };
  return follow({ address, isNew, isOver: () => over }, listener);
}

/** Whether a chunk is one that came already: positions are `edition.number`. */
export function isBefore(id: string, after: string): boolean {
  if (!after) return false;
  const [edition = 0, number = 0] = id.split(".").map(Number);
  const [lastEdition = 0, lastNumber = 0] = after.split(".").map(Number);
  return edition < lastEdition || (edition === lastEdition && number <= lastNumber);
}

export function readData(frame: Frame): unknown {
  return parse(frame.data);
}
