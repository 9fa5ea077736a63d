"""Long JSON in pieces: while a search goes through it, no other thread has a turn, so none goes through all of it at
once.

This file knows JSON as bytes, and not what they mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

PIECE = 8 * 1024 * 1024
"""Bytes that are searched in one go: a few milliseconds, and of a pattern with many alternatives some tens."""

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


def find_all(pattern: re.Pattern[bytes], data: Data, longest: int) -> Iterator[re.Match[bytes]]:
    """Every match in order. `longest` is the most bytes that a match has, and what it looks ahead at is one byte."""
    start, end = 0, PIECE
    while start < len(data):
        found = pattern.search(data, start, end + longest + 1)
        if found is None or found.start() >= end:
            start, end = end, end + PIECE
            continue
        yield found
        start = found.end()
        if start >= end:
            end += PIECE
