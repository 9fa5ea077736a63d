// What the first bytes of a file say of it, whatever its name says.

const begins = (bytes: Uint8Array, ...wanted: readonly number[]): boolean =>
  wanted.every((one, index) => bytes[index] === one);

const isText = (bytes: Uint8Array, at: number, wanted: string): boolean =>
  begins(bytes.subarray(at), ...[...wanted].map((one) => one.charCodeAt(0)));

/** The type of a picture by its first bytes, whatever its name says. No other type is ever shown as a picture. */
export function pictureType(bytes: Uint8Array): string | undefined {
  if (begins(bytes, 0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a)) return "image/png";
  if (begins(bytes, 0xff, 0xd8, 0xff)) return "image/jpeg";
  if (isText(bytes, 0, "GIF87a") || isText(bytes, 0, "GIF89a")) return "image/gif";
  if (isText(bytes, 0, "RIFF") && isText(bytes, 8, "WEBP")) return "image/webp";
  return undefined;
}

// Bytes that stand in no text but in files of other kinds: controls other than tab, line and page breaks, and escape.
const NO_TEXT = /[\u0000-\u0008\u000e-\u001a\u001c-\u001f]/;

/** The text that the first bytes of a file are; undefined if they are none. The last character may be cut. */
export function readText(bytes: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
    return NO_TEXT.test(text) ? undefined : text;
  } catch {
    return undefined; // it is not UTF-8
  }
}

const WIDE = 16;

/** Bytes as people look at them: `00000000  7f 45 4c 46 …  .ELF`. */
export function printBytes(bytes: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += WIDE) {
    const row = [...bytes.subarray(at, at + WIDE)];
    const codes = row.map((one) => one.toString(16).padStart(2, "0")).join(" ");
    const letters = row.map((one) => (one >= 0x20 && one < 0x7f ? String.fromCharCode(one) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${codes.padEnd(WIDE * 3 - 1)}  ${letters}`);
  }
  return lines.join("\n");
}
