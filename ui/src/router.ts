// Where the reader is. The address holds everything that is seen, so that a link shows the same to another reader.
import { signal } from "@preact/signals";

const root = typeof document === "undefined" ? undefined : document.documentElement;
export const base = root?.dataset.base ?? "";

export interface Place {
  readonly path: string;
  readonly query: URLSearchParams;
}

export function readPlace(path: string, search: string, prefix: string): Place {
  const inside = path.startsWith(`${prefix}/`) || path === prefix ? path.slice(prefix.length) : path;
  return { path: inside || "/", query: new URLSearchParams(search) };
}

const current = (): Place =>
  typeof location === "undefined"
    ? { path: "/", query: new URLSearchParams() }
    : readPlace(location.pathname, location.search, base);

export const place = signal<Place>(current());

/** The address of a place as a browser needs it. Paths begin with one slash and go nowhere else. */
export function href(path: string, query?: Readonly<Record<string, string | readonly string[] | undefined>>): string {
  return base + path + (query ? spell(query) : "");
}

export function spell(query: Readonly<Record<string, string | readonly string[] | undefined>>): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === "") continue;
    for (const one of typeof value === "string" ? [value] : value) found.append(name, one);
  }
  const text = found.toString();
  return text ? `?${text}` : "";
}

/** Only addresses of this site may be followed after a login: one slash, and then neither a slash nor a backslash. */
export function isOwnPath(path: string): boolean {
  return /^\/(?![/\\])[^\u0000-\u001f\\]*$/.test(path);
}

export function go(to: string, { replace = false } = {}): void {
  if (replace) history.replaceState(history.state, "", to);
  else {
    history.replaceState({ ...history.state, scroll: scrollY }, "");
    history.pushState({}, "", to);
    scrollTo(0, 0);
  }
  place.value = current();
}

/** Change part of the query. What is chosen becomes a step back in the history; what is only moved does not. */
export function change(parts: Readonly<Record<string, string | readonly string[] | undefined>>, replace = false): void {
  const query = new URLSearchParams(place.value.query);
  // Another node has visits and items of its own.
  if ("node" in parts) for (const name of ["visit", "item"]) query.delete(name);
  for (const [name, value] of Object.entries(parts)) {
    query.delete(name);
    if (value === undefined || value === "") continue;
    for (const one of typeof value === "string" ? [value] : value) query.append(name, one);
  }
  const text = query.toString();
  const at = scrollY;
  go(base + place.value.path + (text ? `?${text}` : ""), { replace });
  scrollTo(0, at);
}

/** What stands in a path where the pattern has `{name}`; undefined where the two do not fit. */
export function match(pattern: string, path: string): Record<string, string> | undefined {
  const wanted = pattern.split("/");
  const found = path.split("/");
  if (wanted.length !== found.length) return undefined;
  const names: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    const given = found[index] ?? "";
    if (part.startsWith("{")) {
      if (!given) return undefined;
      try {
        names[part.slice(1, -1)] = decodeURIComponent(given);
      } catch {
        return undefined;
      }
    } else if (part !== given) return undefined;
  }
  return names;
}

function follow(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const link = (event.target as Element | null)?.closest?.("a");
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (!link.pathname.startsWith(`${base}/`) || link.pathname.startsWith(`${base}/api/`) || link.hash) return;
  event.preventDefault();
  go(link.pathname + link.search);
}

export function listen(): void {
  history.scrollRestoration = "manual";
  addEventListener("popstate", (event) => {
    place.value = current();
    const wanted = (event.state as { scroll?: number } | null)?.scroll ?? 0;
    requestAnimationFrame(() => requestAnimationFrame(() => scrollTo(0, wanted)));
  });
  document.addEventListener("click", follow);
}
