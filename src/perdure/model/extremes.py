"""Extreme numbers: one of the size of 1e300 or 1e-300 takes as long to read as hundreds of others.

A megabyte of them held up its reader for seconds, and values are decoded where runs are decided, every time a run is
loaded. So a value may have a few: an event is then read in about the time of any other, however many events there are.
Knows JSON as text, before it is decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

MOST = 20
"""The most extreme numbers of one value. Each takes 10 µs."""
LARGEST, SMALLEST = 1e280, 1e-280
WHY = (
    f"it has more than {MOST} numbers beyond {LARGEST:.0e} or below {SMALLEST:.0e}, which take long to read;"
    " scale them, or write them as texts"
)

# Two patterns that begin with a letter: one pattern with either letter takes five times as long.
_EXTREME = [re.compile(letter + rb"[+-]?+0*+(?:2[89]|3)[0-9]") for letter in (b"e", b"E")]
_QUOTE = ord('"')
_PIECE = 1024 * 1024
"""Bytes of JSON that are searched in one go: between two pieces, other threads have their turn."""
_LONGEST = 16
"""Bytes of the next piece that are searched for a number that begins in this one."""
_BYTES_EACH = 8 * 1024
"""JSON that is read in about the time that the extreme numbers of one value take."""
_OUTSIDE_TEXTS = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[eE][+-]?+0*+(?:2[89]|3)[0-9]',
    re.DOTALL,
)


def has_many(data: bytes | bytearray | memoryview) -> bool:
    """Whether JSON text has too many extreme numbers. Digits inside a string do not count."""
    # Each takes four bytes at the least, as `e300`: most values are too short to have many, and most others have none.
    if len(data) <= 4 * MOST or (len(data) <= _PIECE and not any(pattern.search(data) for pattern in _EXTREME)):
        return False
    return _count(data) > MOST and _count_outside(data) > MOST


def cost(data: bytes) -> int:
    """How long a value takes to read, as the number of bytes of an ordinary one: for those who read many in a row."""
    lower, upper = _EXTREME  # written out: this is done for every event that is read
    if lower.search(data) is None and (b"E" not in data or upper.search(data) is None):
        return len(data)
    return len(data) + _BYTES_EACH


def _count(data: bytes | bytearray | memoryview) -> int:
    return sum(sum(1 for _ in islice(_find(pattern, data), MOST + 1)) for pattern in _EXTREME)


def _find(pattern: re.Pattern[bytes], data: bytes | bytearray | memoryview) -> Iterator[int]:
    for start in range(0, len(data), _PIECE):
        for found in pattern.finditer(data, start, start + _PIECE + _LONGEST):
            if found.start() < start + _PIECE:
                yield found.start()


def _count_outside(data: bytes | bytearray | memoryview) -> int:
    numbers = (found for found in _OUTSIDE_TEXTS.finditer(data) if data[found.start()] != _QUOTE)
    return sum(1 for _ in islice(numbers, MOST + 1))


def value_has_many(value: Any) -> bool:
    """Whether data has too many extreme numbers."""
    count, stack = 0, [value]
    while stack:
        one = stack.pop()
        if type(one) is float:
            count += one != 0 and not SMALLEST < abs(one) < LARGEST
            if count > MOST:
                return True
        elif isinstance(one, dict):
            stack.extend(one.values())
        elif isinstance(one, list | tuple):
            stack.extend(one)
    return False
