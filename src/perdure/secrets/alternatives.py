"""A pattern for many texts at once. What several of them begin with is looked for once: else a page of one letter, which every key
begins with, takes as long as there are keys, and no other thread has a turn meanwhile. It must not know what the texts are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_DEEPEST = 16
"""How often texts are divided by what comes next in them: a pattern within patterns, which cannot be nested without end."""


def any_of(texts: Iterable[str]) -> str:
    """A pattern of whichever of the texts is there, of several the longest: no part of it must be left."""
    return _any_of(sorted(set(texts)), _DEEPEST)


def _any_of(texts: list[str], depth: int) -> str:
    if len(texts) == 1:
        return re.escape(texts[0])
    if depth == 0:
        return f"(?:{'|'.join(map(re.escape, sorted(texts, key=len, reverse=True)))})"
    begin = _common(texts[0], texts[-1])
    next_by: dict[str, list[str]] = {}
    for text in texts:
        if rest := text[len(begin) :]:
            next_by.setdefault(rest[0], []).append(rest)  # still in order
    divided = f"(?:{'|'.join(_any_of(some, depth - 1) for some in next_by.values())})"
    return re.escape(begin) + (f"{divided}?" if begin in texts else divided)


def _common(first: str, last: str) -> str:
    """What all texts begin with, of which these two are the first and the last in order."""
    number = next((n for n, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:number]
