// The one way to ask the server. What may be asked, and what is answered, is typed by the server's own document.
import { signal } from "@preact/signals";
import { base } from "../router.ts";
import { parse, write } from "./exact.ts";
import type { components, paths } from "./schema.ts";

export type Schemas = components["schemas"];
export type ProblemDetails = Schemas["ProblemDetails"];

type Methods = "get" | "post" | "put" | "delete";
type Has<P extends keyof paths, M extends Methods> = paths[P] extends Record<M, { responses: unknown }> ? M : never;
type Known = {
  [P in keyof paths]: { [M in Methods]: Has<P, M> extends never ? never : `${Uppercase<M>} ${P & string}` }[Methods];
}[keyof paths];
type Operation<K> = K extends `${infer M} ${infer P}`
  ? P extends keyof paths
    ? paths[P][Lowercase<M> & keyof paths[P]]
    : never
  : never;
type Content<R> = R extends { content: { "application/json": infer T } } ? T : never;
export type Answer<K> = Operation<K> extends { responses: infer R } ? Content<R[keyof R & (200 | 201)]> : never;
type Part<K, N extends string> =
  Operation<K> extends { parameters: infer P } ? (N extends keyof P ? P[N] : never) : never;
type Body<K> = Operation<K> extends { requestBody?: { content: { "application/json": infer T } } } ? T : never;

interface Given<K> {
  readonly path?: Part<K, "path">;
  readonly query?: Part<K, "query">;
  readonly body?: Body<K>;
  readonly signal?: AbortSignal;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** A body that is sent as it is; its type is among the headers. */
  readonly raw?: string | undefined;
}

/** The server said no, and why. */
export class Refused extends Error {
  readonly problem: ProblemDetails;
  readonly retrySeconds: number;

  constructor(problem: ProblemDetails, retrySeconds: number) {
    super(problem.detail);
    this.problem = problem;
    this.retrySeconds = retrySeconds;
  }
}

/** No answer came, or none that can be read. */
export class Unreachable extends Error {}

/** Since when the server does not answer; undefined while it does. */
export const silentSince = signal<number | undefined>(undefined);
/** How far the server's clock is ahead of this one, in seconds. Durations are measured by the server's. */
export const clockAhead = signal(0);

/** The server asked for a credential, and there is none, or one that has ended. */
export const needsLogin = signal(false);

export const now = (): number => Date.now() / 1000 + clockAhead.peek();

export function addressOf(key: string, given: { path?: unknown; query?: unknown }): string {
  let path = key.slice(key.indexOf(" ") + 1);
  for (const [name, value] of Object.entries((given.path ?? {}) as Record<string, unknown>)) {
    path = path.replace(`{${name}}`, encodeURIComponent(String(value)));
  }
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries((given.query ?? {}) as Record<string, unknown>)) {
    if (value === undefined || value === null) continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one));
  }
  const text = query.toString();
  return base + path + (text ? `?${text}` : "");
}

/** Ask, and get the answer that the document promises. Raises Refused or Unreachable, or an AbortError. */
export async function call<K extends Known>(key: K, given: Given<K> = {}): Promise<Answer<K>> {
  const found = await ask(key, given);
  return found.content as Answer<K>;
}

export interface Found {
  readonly content: unknown;
  readonly etag: string | undefined;
  readonly unchanged: boolean;
}

/** The same for a question that is asked again and again: with the ETag of the last answer, an answer that did not change is not sent. */
export async function ask<K extends Known>(key: K, given: Given<K> = {}, etag?: string): Promise<Found> {
  const headers: Record<string, string> = { Accept: "application/json", "X-Perdure-Request": "1" };
  if (given.body !== undefined) headers["Content-Type"] = "application/json";
  if (etag) headers["If-None-Match"] = etag;
  Object.assign(headers, given.headers);
  const response = await send(addressOf(key, given), {
    method: key.slice(0, key.indexOf(" ")),
    headers,
    body: given.raw ?? (given.body === undefined ? undefined : write(given.body)),
    signal: given.signal,
    cache: "no-store",
  });
  if (response.status === 304) return { content: undefined, etag, unchanged: true };
  const text = await read(response);
  if (!response.ok) throw refusal(response, text);
  try {
    return {
      content: text ? parse(text) : undefined,
      etag: response.headers.get("etag") ?? undefined,
      unchanged: false,
    };
  } catch {
    throw new Unreachable();
  }
}

/** A request as it is, for streams. */
export async function send(address: string, options: RequestInit): Promise<Response> {
  try {
    const response = await fetch(address, { ...options, credentials: "same-origin" });
    if (response.status !== 503) silentSince.value = undefined;
    const date = Date.parse(response.headers.get("date") ?? "");
    // The header has whole seconds: a difference of less than two says nothing.
    const ahead = (date - Date.now()) / 1000;
    clockAhead.value = Number.isFinite(ahead) && Math.abs(ahead) > 2 ? ahead : 0;
    return response;
  } catch (error) {
    throw lost(error);
  }
}

async function read(response: Response): Promise<string> {
  try {
    return await response.text();
  } catch (error) {
    throw lost(error);
  }
}

function lost(error: unknown): unknown {
  if (error instanceof DOMException && error.name === "AbortError") return error;
  silentSince.value ??= Date.now() / 1000;
  return new Unreachable();
}

export function refusal(response: Response, text: string): Refused | Unreachable {
  const retry = Number(response.headers.get("retry-after") ?? "");
  try {
    const problem = parse(text) as ProblemDetails;
    if (typeof problem.code === "string" && typeof problem.detail === "string") {
      if (response.status === 401 && !response.url.endsWith("/session")) needsLogin.value = true;
      return new Refused(problem, Number.isFinite(retry) ? retry : 0);
    }
  } catch {
    // a proxy answered, and not our server
  }
  if (response.status >= 500) silentSince.value ??= Date.now() / 1000;
  return new Unreachable();
}
