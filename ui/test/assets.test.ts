import assert from "node:assert/strict";
import { test } from "node:test";
import { assetOf } from "../src/kit/assets.ts";
import { asCommand, asPython } from "../src/kit/commands.ts";
import { pictureType, printBytes, readText } from "../src/screens/assets/bytes.ts";
import { keepDoing } from "../src/screens/assets/keeping.ts";
import { bytes } from "../src/words/assets.ts";

const utf8 = (text: string) => new TextEncoder().encode(text);
const of = (...codes: number[]) => new Uint8Array(codes);

test("a file is told from a value that only looks like one", () => {
  const held = { ref: "cas://sha256:ab", media_type: "image/png", name: "a.png", size: 12 };
  assert.deepEqual(assetOf({ $asset: held }), {
    ref: "cas://sha256:ab",
    mediaType: "image/png",
    name: "a.png",
    size: 12,
    preview: undefined,
  });
  const small = { ref: "cas://sha256:cd", media_type: "image/png", size: 3 };
  assert.deepEqual(assetOf({ $asset: { ...held, preview: small } })?.preview, { ref: "cas://sha256:cd", size: 3 });
  for (const other of [
    null,
    [],
    "cas://sha256:ab",
    { $asset: held, more: 1 },
    { $asset: "x" },
    { $asset: { ...held, ref: "https://elsewhere/" } },
    { $asset: { ...held, ref: 7 } },
  ])
    assert.equal(assetOf(other), undefined);
});

test("a picture is known by its bytes, never by its name", () => {
  assert.equal(pictureType(of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 1)), "image/png");
  assert.equal(pictureType(of(0xff, 0xd8, 0xff, 0xe0)), "image/jpeg");
  assert.equal(pictureType(utf8("GIF89a....")), "image/gif");
  assert.equal(pictureType(utf8("RIFF....WEBPVP8 ")), "image/webp");
  for (const other of ["<svg xmlns='x' onload='alert(1)'>", "<html>", "%PDF-1.7", "RIFF....WAVE", "GIF90a", ""])
    assert.equal(pictureType(utf8(other)), undefined);
});

test("text is what is UTF-8 without bytes that no text has, cut anywhere", () => {
  const text = "héllo 🙂 漢字";
  const all = utf8(text);
  for (let end = 0; end <= all.length; end++) assert.ok(text.startsWith(readText(all.subarray(0, end)) ?? "no"));
  assert.equal(readText(all), text);
  assert.equal(readText(of(0x61, 0x00, 0x62)), undefined);
  assert.equal(readText(of(0xc3, 0x28)), undefined);
  assert.equal(readText(utf8("a\tb\r\n\u001b[31mred")), "a\tb\r\n\u001b[31mred");
});

test("bytes stand in rows of sixteen with their letters", () => {
  const rows = printBytes(of(0x7f, 0x45, 0x4c, 0x46, ...Array.from({ length: 14 }, () => 0))).split("\n");
  assert.equal(rows[0], "00000000  7f 45 4c 46 00 00 00 00 00 00 00 00 00 00 00 00  .ELF............");
  assert.equal(rows[1], `00000010  00 00${" ".repeat(42)}  ..`);
});

test("sizes are decimal", () => {
  assert.deepEqual([1, 999, 1000, 51_200, 1_500_000, 5_000_000_000].map(bytes), [
    "1 byte",
    "999 bytes",
    "1 KB",
    "51.2 KB",
    "1.5 MB",
    "5 GB",
  ]);
});

test("keeping a file is the same request in three languages", () => {
  const doing = keepDoing({ run_id: "r", node: "draw", name: "logo", pointer: "/files/0", visit: 2 });
  assert.equal(
    asCommand(doing, "http://s"),
    "perdure assets promote r draw --as logo --pointer /files/0 --visit 2 --server http://s",
  );
  assert.match(
    asPython(doing, "http://s", false),
    /assets\.promote\("r", "draw", name="logo", pointer="\/files\/0", visit=2\)/,
  );
});
