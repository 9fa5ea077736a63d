"""How wide text is, and how it is cut or broken to fit. It is an estimate, because the reader's fonts are not known.

The figures are those of a wide sans-serif (DejaVu, Verdana), so that text fits its box with narrower ones too.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

_NARROW = frozenset("iljI.,:;|!'`")
_SLIM = frozenset('frt()[]{}-/\\ "*^°')
_BROAD = frozenset("mwMW@%—…&")
MONOSPACED = 0.605
"""The width of a character of a monospaced font, in units of its size."""


def measure(text: str, size: float) -> float:
    """The width of a line of sans-serif text of this size."""
    return sum(map(_width, text)) * size


def measure_code(text: str, size: float) -> float:
    """The width of a line of monospaced text."""
    return sum(2 if _is_wide(char) else 1 for char in text) * MONOSPACED * size


def cut(text: str, length: int) -> str:
    """One line of at most so many characters: control characters and line breaks become spaces."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def wrap(text: str, length: int, lines: int) -> list[str]:
    """At most so many lines of so many characters: of similar length, and broken at spaces if possible."""
    line = cut(text, 10_000)
    count = max(min(-(-len(line) // length), lines), 1)
    for target in range(-(-len(line) // count), length + 1):
        found = _break(line, target)
        if len(found) <= count and all(len(one) <= target for one in found):
            return found
    rest, found = line, []
    while len(rest) > length and len(found) < lines - 1:
        at = rest.rfind(" ", length // 2, length + 1)
        at = length if at < 0 else at
        found.append(rest[:at].rstrip())
        rest = rest[at:].lstrip()
    return [*found, cut(rest, length)]


def _break(line: str, length: int) -> list[str]:
    """Words filled into lines; a word longer than a line sticks out."""
    found = [""]
    for word in line.split(" "):
        if found[-1] and len(found[-1]) + 1 + len(word) > length:
            found.append("")
        found[-1] += f" {word}" if found[-1] else word
    return found


@lru_cache(4096)
def _width(char: str) -> float:
    if char in _NARROW:
        return 0.34
    if char in _SLIM:
        return 0.42
    if char in _BROAD:
        return 0.95
    if char.isdigit():
        return 0.64
    if _is_wide(char):
        return 1.05
    return 0.72 if char.isupper() else 0.61


def _is_wide(char: str) -> bool:
    return char > "\u1100" and unicodedata.east_asian_width(char) in "WF"
