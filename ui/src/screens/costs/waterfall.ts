// Parts of a sum, the largest first, each where the ones before it end.

interface Spent {
  readonly usd: number;
  readonly input: number;
  readonly output: number;
  readonly calls: number;
}

export interface Bar<T> {
  readonly name: string;
  readonly usage: T;
  /** Where it begins and how long it is, of a whole of 1. */
  readonly from: number;
  readonly part: number;
}

/** By dollars; where nothing has a price, by tokens; else by calls. */
function weightOf(all: readonly Spent[]): (one: Spent) => number {
  if (all.some((one) => one.usd > 0)) return (one) => one.usd;
  if (all.some((one) => one.input + one.output > 0)) return (one) => one.input + one.output;
  return (one) => one.calls;
}

export function fall<T extends Spent>(of: Readonly<Record<string, T>>): readonly Bar<T>[] {
  const entries = Object.entries(of);
  const weigh = weightOf(entries.map(([, one]) => one));
  const whole = entries.reduce((sum, [, one]) => sum + weigh(one), 0);
  let from = 0;
  return entries
    .toSorted(([one, first], [other, second]) => weigh(second) - weigh(first) || (one < other ? -1 : 1))
    .map(([name, usage]) => {
      const part = whole > 0 ? weigh(usage) / whole : 0;
      const bar = { name, usage, from, part };
      from += part;
      return bar;
    });
}
