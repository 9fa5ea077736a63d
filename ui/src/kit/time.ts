// Times and durations as people read them, in the zone they chose.
import { signal } from "@preact/signals";
import { words } from "../words/en.ts";

/** `local`, `utc`, or the name of a zone, such as `Asia/Kolkata`. */
export type Zone = string;

const kept = typeof localStorage === "undefined" ? null : readKept();

function readKept(): string | null {
  try {
    return localStorage.getItem("time");
  } catch {
    return null; // a browser may forbid it
  }
}

export const isZone = (name: string): boolean => {
  if (name === "local" || name === "utc") return true;
  try {
    return Boolean(new Intl.DateTimeFormat("en-GB", { timeZone: name }));
  } catch {
    return false;
  }
};

/** `tz=` in an address wins: whoever follows a link sees the times that its sender saw. */
const linked = typeof location === "undefined" ? null : new URLSearchParams(location.search).get("tz");

function firstZone(): Zone {
  const asked = linked?.toLowerCase() === "utc" ? "utc" : linked;
  return [asked, kept].find((name) => name && isZone(name)) ?? "local";
}

export const zone = signal<Zone>(firstZone());

export function keepZone(value: Zone): void {
  zone.value = value;
  try {
    localStorage.setItem("time", value);
  } catch {
    // it is kept until the page is closed
  }
}

const formats = new Map<string, Intl.DateTimeFormat>();

function format(style: "clock" | "minute" | "date" | "day" | "full", where: Zone): Intl.DateTimeFormat {
  const key = `${style} ${where}`;
  let found = formats.get(key);
  if (!found) {
    const timeZone = where === "local" ? undefined : where === "utc" ? "UTC" : where;
    const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" } as const;
    const options: Record<typeof style, Intl.DateTimeFormatOptions> = {
      clock: { ...clock, timeZone },
      minute: { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone },
      date: { day: "numeric", month: "short", timeZone },
      day: { day: "numeric", month: "short", year: "numeric", timeZone },
      full: {
        ...clock,
        day: "numeric",
        month: "short",
        year: "numeric",
        fractionalSecondDigits: 3,
        timeZone,
        timeZoneName: "shortOffset",
      },
    };
    found = new Intl.DateTimeFormat("en-GB", options[style]);
    formats.set(key, found);
  }
  return found;
}

/** `09:24:51`, with the day where it is not today's. */
export function shownTime(at: number, where: Zone, now: number): string {
  const date = new Date(at * 1000);
  const day = format("day", where).format(date);
  const clock = format("clock", where).format(date);
  return day === format("day", where).format(new Date(now * 1000)) ? clock : `${day}, ${clock}`;
}

/** `09:24`, with the day where it is not today's: for axes. */
export function shownMinute(at: number, where: Zone, now: number): string {
  const date = new Date(at * 1000);
  const day = format("date", where).format(date);
  const clock = format("minute", where).format(date);
  return day === format("date", where).format(new Date(now * 1000)) ? clock : `${day}, ${clock}`;
}

export function clockWithMilliseconds(at: number, where: Zone): string {
  const milliseconds = String(Math.floor((at * 1000) % 1000)).padStart(3, "0");
  return `${clock(at, where)}.${milliseconds}`;
}

export const clock = (at: number, where: Zone): string => format("clock", where).format(new Date(at * 1000));

/** Everything about a moment, for whoever wants to know it exactly. */
export function exactTime(at: number, where: Zone): string {
  return `${format("full", where).format(new Date(at * 1000))} · ${new Date(at * 1000).toISOString()}`;
}

/** `850 ms`, `1.2 s`, `3 min 04 s`, `2 h 05 min`, `3 d 4 h`. */
export function shownDuration(seconds: number): string {
  if (!(seconds >= 0)) return "0 s";
  if (seconds < 0.0005) return words.time.least;
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const pad = (value: number) => String(value).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${pad(whole % 60)} s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)} h ${pad(Math.floor((whole % 3600) / 60))} min`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor((whole % 86_400) / 3600)} h`;
}

/** `3 min ago`, in the largest unit that fits. */
export function relativeTime(at: number, now: number): string {
  const away = Math.abs(now - at);
  if (away < 1) return words.time.now;
  const text =
    away < 60
      ? `${Math.floor(away)} s`
      : away < 3600
        ? `${Math.floor(away / 60)} min`
        : away < 86_400
          ? `${Math.floor(away / 3600)} h`
          : `${Math.floor(away / 86_400)} d`;
  return at <= now ? words.time.ago(text) : words.time.ahead(text);
}

/** From `24h` in an address to the seconds since 1970 of the moment that is meant; others are left as they are. */
export function readSince(text: string, now: number): string {
  const found = /^(\d{1,6})([smhd])$/.exec(text);
  if (!found) return text;
  const unit = { s: 1, m: 60, h: 3600, d: 86_400 }[found[2] as "s" | "m" | "h" | "d"];
  return String(now - Number(found[1]) * unit);
}

/** A sentence of the server with its moments as the reader chose to see them. */
export function localTimes(sentence: string, where: Zone, now: number): string {
  return sentence.replaceAll(/\b(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC\b/g, (_, day, clock) =>
    shownTime(Date.parse(`${day}T${clock}Z`) / 1000, where, now),
  );
}
