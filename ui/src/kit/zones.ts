// Times of a named zone: from what a person typed to the moment that is meant, and back.

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(zone: string): Intl.DateTimeFormat {
  let found = formats.get(zone);
  if (!found) {
    const parts = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit" } as const;
    const timeZone = zone === "local" ? undefined : zone === "utc" ? "UTC" : zone;
    found = new Intl.DateTimeFormat("en-CA", { ...parts, second: "2-digit", hourCycle: "h23", timeZone });
    formats.set(zone, found);
  }
  return found;
}

/** `2026-03-29T02:30:00`, as a clock in the zone shows it. */
export function clockIn(at: number, zone: string): string {
  const parts = new Map(
    formatOf(zone)
      .formatToParts(new Date(at * 1000))
      .map((one) => [one.type, one.value]),
  );
  const get = (name: Intl.DateTimeFormatPartTypes) => parts.get(name) ?? "00";
  return `${get("year")}-${get("month")}-${get("day")}T${get("hour")}:${get("minute")}:${get("second")}`;
}

/** The day in the zone, `2026-03-29`. */
export const dayIn = (at: number, zone: string): string => clockIn(at, zone).slice(0, 10);

/** The moment at which clocks of the zone show this time; of two the first, and where clocks are put forward over it, as if they were not yet. */
export function momentIn(text: string, zone: string): number | undefined {
  const whole = /^\d{4}-\d{2}-\d{2}$/.test(text) ? `${text}T00:00` : text;
  const wanted = Date.parse(`${whole}Z`) / 1000;
  if (!Number.isFinite(wanted)) return undefined;
  const offsetAt = (at: number) => Date.parse(`${clockIn(at, zone)}Z`) / 1000 - Math.floor(at);
  const before = offsetAt(wanted - 86_400);
  const after = offsetAt(wanted + 86_400);
  for (const offset of [before, after]) {
    if (offsetAt(wanted - offset) === offset) return wanted - offset;
  }
  return wanted - before;
}
