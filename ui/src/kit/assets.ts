// Files among values: how they are told from other values.

export interface Asset {
  readonly ref: string;
  readonly mediaType: string;
  readonly name: string;
  readonly size: number;
  /** A small picture or text of it, which a plug-in made. */
  readonly preview?: { readonly ref: string; readonly size: number } | undefined;
}

export const hashOf = (ref: string): string => ref.slice("cas://".length);

type Object_ = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Object_ =>
  value !== null && typeof value === "object" && !Array.isArray(value);
const isRef = (value: unknown): value is string => typeof value === "string" && value.startsWith("cas://");
const textOf = (value: unknown): string => (typeof value === "string" ? value : "");
const sizeOf = (value: unknown): number => (typeof value === "number" ? value : 0);

/** The file that a value stands for, if it stands for one: `{"$asset": {…}}` and nothing beside it. */
export function assetOf(value: unknown): Asset | undefined {
  if (!isObject(value) || Object.keys(value).length !== 1) return undefined;
  const held = value.$asset;
  if (!isObject(held) || !isRef(held.ref)) return undefined;
  const small = held.preview;
  return {
    ref: held.ref,
    mediaType: textOf(held.media_type),
    name: textOf(held.name),
    size: sizeOf(held.size),
    preview: isObject(small) && isRef(small.ref) ? { ref: small.ref, size: sizeOf(small.size) } : undefined,
  };
}
