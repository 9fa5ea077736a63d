"""Whether a value is so small that working with it is less than a thread for it would be."""

from __future__ import annotations

from typing import Any

MOST = 8 * 1024
_EACH = 16


def is_light(*values: Any, most: int = MOST) -> bool:
    """Whether the values together have few parts and little text. It looks at no more than that."""
    left, found = most, list(values)
    while found:
        one = found.pop()
        left -= _EACH
        if isinstance(one, str | bytes):
            left -= len(one)
        elif isinstance(one, dict):
            left -= _EACH * len(one)
            if left < 0:
                return False
            left -= sum(len(key) if isinstance(key, str) else most for key in one)
            found += one.values()
        elif isinstance(one, list | tuple):
            left -= _EACH * len(one)
            if left < 0:
                return False
            found += one
        elif isinstance(one, int):
            left -= one.bit_length() // 8
        elif one is not None and not isinstance(one, float):
            return False
        if left < 0:
            return False
    return True
