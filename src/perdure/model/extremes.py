"""Numbers that take long to read: of the size of 1e300 or 1e-300 each takes as long as hundreds of others.

A megabyte of them held up whoever decoded it for seconds, and that is done where runs are decided, at every look. So a value may have
some, and not many. Knows JSON as text, before anybody decodes it.
"""

from __future__ import annotations

import re
from typing import Any

MOST = 1_000
"""About 10 ms."""
LARGEST, SMALLEST = 1e280, 1e-280
WHY = f"it has more than {MOST:,} numbers beyond {LARGEST:.0e} or below {SMALLEST:.0e}, which take long to read; scale them"

_EXTREME = re.compile(rb"[0-9][eE][+-]?0*+(?:2[89]|3)[0-9]")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)


def has_many(data: bytes | bytearray | memoryview) -> bool:
    """Of JSON: what looks like one inside of a text is none."""
    return _count(data) > MOST and _count(_STRING.sub(b"", data)) > MOST


def _count(data: bytes | bytearray | memoryview) -> int:
    count = 0
    for _ in _EXTREME.finditer(data):
        count += 1
        if count > MOST:
            break
    return count


def holds_many(value: Any) -> bool:
    """Of data."""
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
