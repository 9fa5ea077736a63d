// What a node yields, as far as a page keeps it: the newest of it, and how much there was.
import { type Frame, readData } from "../../api/stream.ts";

export interface Chunk {
  readonly number: number;
  /** Text as it is, anything else as JSON. */
  readonly text: string;
}

export interface Flow {
  readonly edition: number;
  /** How many chunks there were in this edition. */
  readonly count: number;
  readonly kept: readonly Chunk[];
  /** Whether all that is kept is text: what a model says is read in one piece. */
  readonly isText: boolean;
  /** How often it began anew while the page looked on. */
  readonly restarts: number;
  /** Why nothing more comes; empty while something may. */
  readonly end: string;
  readonly error: string;
}

export const NOTHING: Flow = { edition: 0, count: 0, kept: [], isText: true, restarts: 0, end: "", error: "" };

/** What a page keeps of a stream, and of one chunk: words make one text, other chunks a line each. */
const MOST_WORDS = 20_000;
const MOST_LINES = 500;
const MOST_CHARACTERS = 200_000;
const LONGEST = 5000;

interface Data {
  readonly edition: number;
  readonly number?: number;
  readonly chunk?: unknown;
  readonly reason?: string;
  readonly error?: string;
}

/** The stream with what came. */
export function withFrames(flow: Flow, frames: readonly Frame[], write: (value: unknown) => string): Flow {
  const found = { ...flow, kept: [...flow.kept] };
  for (const frame of frames) {
    const data = readData(frame) as Data;
    if (data.edition !== found.edition) {
      // What came of another edition counts no more.
      if (found.edition) found.restarts += 1;
      Object.assign(found, { edition: data.edition, count: 0, kept: [], isText: true, end: "", error: "" });
    }
    if (frame.event === "chunk") {
      found.count = data.number ?? found.count + 1;
      if (typeof data.chunk !== "string") found.isText = false;
      const text = typeof data.chunk === "string" ? data.chunk : write(data.chunk);
      found.kept.push({ number: found.count, text: text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text });
    } else if (frame.event === "end") {
      found.end = data.reason ?? "end";
      found.error = data.error ?? "";
    }
  }
  return { ...found, kept: newest(found.kept, found.isText ? MOST_WORDS : MOST_LINES) };
}

function newest(chunks: readonly Chunk[], most: number): readonly Chunk[] {
  let from = chunks.length;
  let characters = 0;
  while (from > 0 && chunks.length - from < most) {
    characters += chunks[from - 1]!.text.length;
    if (characters > MOST_CHARACTERS && from < chunks.length) break;
    from -= 1;
  }
  return from === 0 ? chunks : chunks.slice(from);
}
