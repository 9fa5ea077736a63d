"""The leaves of plain data: what is neither an object nor a list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def has_leaf(value: Any, fits: Callable[[Any], object]) -> bool:
    """Whether any leaf of a value fits. Keys are no leaves."""
    stack = [value]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)
        elif fits(value):
            return True
    return False
