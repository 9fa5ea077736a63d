"""The words of a PDF that Chromium printed. Its texts are numbers of glyphs, and each font says which letters these are."""

from __future__ import annotations

import re
import unicodedata
import zlib


def _streams(data: bytes) -> list[bytes]:
    found = []
    for match in re.finditer(rb"stream\r?\n", data):
        if data[: match.start()].endswith(b"end"):
            continue
        try:
            found.append(zlib.decompressobj().decompress(data[match.end() :]))
        except zlib.error:
            continue  # a picture or a font that is not compressed this way
    return found


def _letters(text: str) -> dict[int, str]:
    """What a font's table says of each glyph: one by one, and by ranges."""
    found = {}
    for part in re.findall(r"beginbfchar(.*?)endbfchar", text, re.DOTALL):
        for glyph, letter in re.findall(r"<(\w+)>\s*<(\w+)>", part):
            found[int(glyph, 16)] = bytes.fromhex(letter).decode("utf-16-be")
    for part in re.findall(r"beginbfrange(.*?)endbfrange", text, re.DOTALL):
        for first, last, letter in re.findall(r"<(\w+)>\s*<(\w+)>\s*<(\w+)>", part):
            for offset in range(int(last, 16) - int(first, 16) + 1):
                found[int(first, 16) + offset] = chr(int(letter, 16) + offset)
    return found


def readings_of(data: bytes) -> list[str]:
    """All texts without blanks, once by the letters of each font: what was written in a font is in its reading."""
    texts = [stream.decode("latin-1") for stream in _streams(data)]
    fonts = [_letters(text) for text in texts if "beginbfchar" in text or "beginbfrange" in text]
    written = "".join(
        "".join(re.findall(r"<([0-9A-Fa-f]+)>", text)) for text in texts if " Tf" in text and "begincmap" not in text
    )
    glyphs = [int(written[at : at + 4], 16) for at in range(0, len(written), 4)]
    readings = ("".join(letters.get(one, "\0") for one in glyphs) for letters in fonts)
    return [unicodedata.normalize("NFKC", one).replace(" ", "") for one in readings]  # two letters may be one glyph
