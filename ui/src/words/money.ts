// How money is written.

const format = (more: Intl.NumberFormatOptions) =>
  new Intl.NumberFormat("en", { style: "currency", currency: "USD", ...more });
const large = format({});
const small = format({ maximumFractionDigits: 4 });
const tiny = format({ maximumSignificantDigits: 3 });

/** Dollars with as many digits as say something: `$1,234.50`, `$0.0123`, `$0.00123`. */
export function dollars(usd: number): string {
  const size = Math.abs(usd);
  return (size >= 1 || size === 0 ? large : size >= 0.01 ? small : tiny).format(usd);
}
