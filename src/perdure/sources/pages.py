"""One page of items: as many as one answer may hold, and each of them such that it can be kept.

An item that can never be kept is an item with an error, which is parked: one bad row stops no source. What does not fit beside the
others comes with the next page.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from perdure import weight
from perdure.model.extremes import WHY, cost, has_many
from perdure.pieces import contains, count
from perdure.plain import is_finite, is_shallow, look_inside
from perdure.sources import LONGEST_ID, MOST_BYTES, MOST_ITEMS, Item

DEEPEST = 190
"""How deep an item may be nested: an output may have 200 levels, and the page is one."""
OWN = b'"$perdure:sealed"'
"""A key that only Perdure writes."""


class Page:
    def __init__(self) -> None:
        self.items: list[Item] = []
        self._bytes = 0
        self._weight = 0
        self._extreme = b""
        """The texts that have extreme numbers: of these, a whole answer may have a few."""

    @property
    def is_full(self) -> bool:
        return len(self.items) >= MOST_ITEMS

    def add(self, id: str, data: Any) -> bool:
        """Add an item; False: it does not fit beside the others, and the next page begins with it."""
        try:
            text = msgspec.json.encode(data)
        except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
            return self.refuse(id, f"it cannot be written as JSON: {str(error)[:200] or type(error).__name__}")
        if contains(text, b"null") and not is_finite(data):
            return self.refuse(id, "it has a number that is infinite or none, which JSON has not")
        return self._add(id, text, data)

    def add_json(self, id: str, text: bytes) -> bool:
        """`add` for an item that is JSON."""
        if len(text) > MOST_BYTES or weight.is_heavy(text):  # before it is decoded
            return self._add(id, text, None)
        try:
            return self._add(id, text, msgspec.json.decode(text))
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            return self.refuse(id, f"it cannot be read: {str(error)[:200]}")

    def refuse(self, id: str, why: str) -> bool:
        """Add an item that cannot be kept."""
        if self.is_full:
            return False
        self.items.append(Item(shorten_id(id), None, why))
        return True

    def _add(self, id: str, text: bytes, data: Any) -> bool:
        problem = _name_problem(text, data)
        if problem:
            return self.refuse(id, problem)
        size, heavy = self._bytes + len(text), self._weight + weight.weigh(text)
        extreme = self._extreme + text if cost(text) > len(text) else self._extreme
        over = size > MOST_BYTES or heavy > weight.MOST // 2 or has_many(extreme)
        if self.is_full or (over and self.items):
            return False
        self.items.append(Item(shorten_id(id), data))
        self._bytes, self._weight, self._extreme = size, heavy, extreme
        return True


def _name_problem(text: bytes, data: Any) -> str:
    """Why an item can never be kept; empty: it can."""
    if len(text) > MOST_BYTES:
        return f"it has {len(text):,} bytes as JSON, and {MOST_BYTES:,} are allowed; let the source hold where it is instead"
    if weight.is_heavy(text):
        return weight.WHY
    if has_many(text):
        return WHY
    if contains(text, b"\\u0000") and _has_nul(data):
        return "it has a text with a NUL character"
    if contains(text, OWN):
        return "it has a key that only Perdure writes"
    if count(text, b"[") + count(text, b"{") > DEEPEST and not is_shallow(data, DEEPEST):
        return f"it is nested more than {DEEPEST} levels deep"
    return ""


def _has_nul(value: Any) -> bool:
    pending = [value]
    while pending:
        found = pending.pop()
        if isinstance(found, str) and "\0" in found:
            return True
        if isinstance(found, dict):
            pending += found.keys()
        pending += look_inside(found)
    return False


def shorten_id(id: str) -> str:
    """The id as it can be kept: of one that is too long, or has a NUL, its hash."""
    if len(id) <= LONGEST_ID and "\0" not in id:
        return id
    return f"sha256:{hashlib.sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()}"
