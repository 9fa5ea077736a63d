// Text of others: what cannot be seen in it is named, so that nothing can hide in a line.

export interface Piece {
  readonly text: string;
  /** The name of a character that would not be seen, or would move others. */
  readonly odd: boolean;
}

// Controls but tab and newline; soft hyphen; zero-width and direction marks; line separators; fillers; tags; the byte-order mark.
const ODD =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb]|[\ufe00-\ufe0f]|\u034f|[\u{e0000}-\u{e007f}]|[\ud800-\udfff]/gu;

export function isPlain(text: string): boolean {
  return text.search(ODD) < 0;
}

export function piecesOf(text: string): Piece[] {
  const found: Piece[] = [];
  let end = 0;
  for (const odd of text.matchAll(ODD)) {
    if (odd.index > end) found.push({ text: text.slice(end, odd.index), odd: false });
    const code = odd[0].codePointAt(0) ?? 0;
    found.push({ text: `U+${code.toString(16).toUpperCase().padStart(4, "0")}`, odd: true });
    end = odd.index + odd[0].length;
  }
  if (end < text.length) found.push({ text: text.slice(end), odd: false });
  return found;
}

/** Cut after so many characters, never in the middle of one. */
export function cut(text: string, most: number): string {
  if (text.length <= most) return text;
  const last = text.charCodeAt(most - 1);
  return `${text.slice(0, last >= 0xd800 && last < 0xdc00 ? most - 1 : most)}…`;
}

/** The address of a link in a value: http and https alone; undefined for every other. */
export function safeHref(text: string): string | undefined {
  if (!/^https?:\/\//i.test(text)) return undefined;
  try {
    const address = new URL(text);
    return address.protocol === "http:" || address.protocol === "https:" ? address.href : undefined;
  } catch {
    return undefined;
  }
}
