"""Sources with cursors: where the items of a trigger come from, and how far it has read.

A source is asked by `poll`, with the cursor of what is durable, and answers with items and the cursor behind them. It
may be killed between any two calls, so it keeps nothing that it needs: what it remembers only saves time. It must never
pass an item that it has not given, and an item has the same id whenever it is given.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import msgspec

from perdure.errors import PerdureError

MOST_ITEMS = 100
"""The most items of one poll."""


class Item(msgspec.Struct, frozen=True):
    id: str
    data: Any


class Polled(msgspec.Struct, frozen=True):
    """The answer to a poll."""

    items: tuple[Item, ...]
    cursor: str
    """How far the source has been read with these items. Text that only the source understands."""
    more: bool = False
    """There is more at once; otherwise the next poll comes after a while."""
    end: bool = False
    """Nothing will ever come again."""


class Source:
    """The base of sources. Methods may be synchronous or not; all but `poll` may be left out."""

    def poll(self, cursor: str | None) -> Polled | Awaitable[Polled]:
        """What comes after the cursor; None: it is read for the first time."""
        raise NotImplementedError

    def close(self) -> Awaitable[None] | None:
        """Give back what the source holds. It is not called when the process dies."""
        return None


class SourceFailed(PerdureError):
    """A source cannot be read now. It is read again after a while, from the same cursor."""

    code = "source_failed"


class SourceRefused(PerdureError):
    """A source may not be read as it is configured: asking again does not help."""

    code = "source_refused"
