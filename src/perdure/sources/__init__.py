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
MOST_BYTES = 4 * 1024 * 1024
"""The most bytes, as JSON, of all items of one poll: it is what one item may have."""
LONGEST_ID = 500


class Item(msgspec.Struct, frozen=True):
    id: str
    data: Any
    error: str = ""
    """Why its content cannot be given, now or later: then it is parked, and others go on."""


class Polled(msgspec.Struct, frozen=True):
    """The answer to a poll."""

    items: tuple[Item, ...]
    cursor: str
    """How far the source has been read with these items. Text that only the source understands."""
    more: bool = False
    """There is more at once; otherwise the next poll comes after a while."""
    end: bool = False
    """Nothing will ever come again."""


NAMED: dict[str, type[Source]] = {}
"""The sources of this process that have a name."""


class Source:
    """The base of sources. Methods may be synchronous, and are then called in a thread, or not; all but `poll` may be left out.

    class Parcels(perdure.Source, name="parcels"): …    # `poll: {type: parcels}` names it where its module is imported
    """

    def __init_subclass__(cls, name: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        if name:
            NAMED[name] = cls

    def open(self, config: dict[str, Any]) -> Awaitable[None] | None:
        """Get ready to be polled, with the config of the trigger in which secrets are filled in."""
        return None

    def poll(self, cursor: str | None) -> Polled | Awaitable[Polled]:
        """What comes after the cursor; None: it is read for the first time."""
        raise NotImplementedError

    async def wait(self, seconds: float) -> None:
        """Return when something has come, where the source is told so. It is polled after so many seconds at the latest, as one
        without a `wait` of its own is."""
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
