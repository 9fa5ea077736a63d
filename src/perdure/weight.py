"""The weight of JSON: how long it takes to decode. Meanwhile, in whichever thread that is done, no other thread has a
turn.

A megabyte of text is read in no time, a megabyte of empty lists takes a twentieth of a second, and the garbage
collector as long again. So what a process reads for a run is weighed by its parts. This file knows JSON as text, before
it is decoded.
"""

from __future__ import annotations

import re
from itertools import islice

from perdure.pieces import count

MOST = 2_000_000
"""The most weight that is read at once: about a tenth of a second, whatever the parts are."""
_OF_A_LIST = 6
"""How many numbers take as long as one list or object."""
WHY = (
    f"it has more parts than one process reads at once: each value counts 1, each list or object {_OF_A_LIST} more, and"
    f" {MOST:,} are allowed; make it smaller, or let a function with `isolation: process` read it"
)

_TEXTS = 100_000
"""How many texts are examined: of many short ones, hardly any weighs more than the comma behind it."""
_FEW = 3
_MOST_SEARCHED = 256 * 1024
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)


def is_heavy(data: bytes | bytearray, most: int = MOST) -> bool:
    """Whether JSON is too heavy to be read at once. Texts weigh nothing, and are looked for only if that decides."""
    if len(data) * (_OF_A_LIST + 1) <= most:
        return False
    weight = weigh(data)
    if weight <= most:
        return False
    for found in islice(_STRING.finditer(data), _TEXTS):
        weight -= _weigh(data, found.start(), found.end())
        if weight <= most:
            return False
    return True


def count_parts(data: bytes | bytearray) -> int:
    """How many lists and objects JSON has. What stands in its texts does not count, unless there is very much of it."""
    parts = count(data, b"[") + count(data, b"{")
    if parts <= _FEW or len(data) > _MOST_SEARCHED or b'"' not in data:
        return parts
    plain = _STRING.sub(b"", data)
    return plain.count(b"[") + plain.count(b"{")


def weigh(data: bytes | bytearray) -> int:
    """The weight of JSON, and rather too much: what stands in texts counts too."""
    return _weigh(data, 0, len(data))


def _weigh(data: bytes | bytearray, start: int, end: int) -> int:
    lists = count(data, b"[", start, end) + count(data, b"{", start, end)
    return _OF_A_LIST * lists + count(data, b",", start, end)
