"""Long JSON and long texts in pieces: while a search goes through one, no other thread has a turn, so none goes through all of it at
once.

This file knows JSON as bytes, and not what they mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import AnyStr

PIECE = 8 * 1024 * 1024
"""Bytes that are searched in one go for what is always the same: a few milliseconds."""
SEARCHED = 64 * 1024
"""The same for a pattern, which may look at each byte again and again."""

Data = bytes | bytearray


def count(data: Data, byte: bytes, start: int = 0, end: int | None = None) -> int:
    """How often a single byte occurs."""
    end = len(data) if end is None else end
    if end - start <= PIECE:
        return data.count(byte, start, end)
    return sum(data.count(byte, one, min(one + PIECE, end)) for one in range(start, end, PIECE))


def contains(data: Data, what: bytes) -> bool:
    if len(data) <= PIECE:
        return what in data
    more = len(what) - 1
    return any(data.find(what, start, start + PIECE + more) >= 0 for start in range(0, len(data), PIECE))


def find_all(pattern: re.Pattern[AnyStr], data: AnyStr | bytearray, longest: int) -> Iterator[re.Match[AnyStr]]:
    """Every match in order. `longest` is the most bytes that a match has, and what it looks ahead at is one byte."""
    start, end = 0, SEARCHED
    while start < len(data):
        found = pattern.search(data, start, end + longest + 1)  # type: ignore[arg-type]
        if found is None or found.start() >= end:
            start, end = end, end + SEARCHED
            continue
        yield found
        start = found.end()
        if start >= end:
            end += SEARCHED
