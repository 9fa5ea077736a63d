// The days of a month as a calendar shows them, and what is due or was run on each.

/** A day as `2026-03-29`. */
export type Day = string;

const pad = (value: number) => String(value).padStart(2, "0");

export const isMonth = (text: string): boolean => /^\d{4}-(0[1-9]|1[0-2])$/.test(text);

/** The month so many months later, `2026-12` and 1 is `2027-01`. */
export function monthAfter(month: string, by: number): string {
  const [year, number] = month.split("-").map(Number) as [number, number];
  const count = year * 12 + (number - 1) + by;
  return `${Math.floor(count / 12)}-${pad((count % 12) + 1)}`;
}

/** The days that weeks beginning on Monday show for a month: those of it, with the ends of the months beside it. */
export function daysOf(month: string): Day[] {
  const first = new Date(`${month}-01T00:00:00Z`);
  const before = (first.getUTCDay() + 6) % 7;
  const count = new Date(Date.UTC(first.getUTCFullYear(), first.getUTCMonth() + 1, 0)).getUTCDate();
  const whole = Math.ceil((before + count) / 7) * 7;
  return Array.from({ length: whole }, (_, index) => {
    const day = new Date(first);
    day.setUTCDate(1 - before + index);
    return day.toISOString().slice(0, 10);
  });
}

export interface Due {
  readonly name: string;
  readonly workflow: string;
  readonly due: number;
  readonly note: string;
}

export interface Cluster {
  readonly name: string;
  readonly items: readonly Due[];
}

/** The firings of a day: one by one, or, where there are more than fit, a count for each schedule. */
export function cluster(
  items: readonly Due[],
  most: number,
): { readonly single: readonly Due[]; readonly counted: readonly Cluster[] } {
  if (items.length <= most) return { single: items, counted: [] };
  const found = new Map<string, Due[]>();
  for (const one of items) found.set(one.name, [...(found.get(one.name) ?? []), one]);
  const groups = [...found].map(([name, all]) => ({ name, items: all }));
  return {
    single: groups.filter((one) => one.items.length === 1).flatMap((one) => one.items),
    counted: groups.filter((one) => one.items.length > 1),
  };
}
