"""Stored events in portions of a bounded size: the number of events read at once says nothing about what each
takes, and decoding a page of large ones in one go would hold up the loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from perdure.clock import Clock
from perdure.journal import StoredEvent
from perdure.model.extremes import cost

PORTION_BYTES = 256 * 1024


async def in_portions(clock: Clock, stored: Sequence[StoredEvent]) -> AsyncIterator[list[StoredEvent]]:
    """The events in order, as lists that can be decoded in one go. Other tasks have a turn between two of them."""
    portion: list[StoredEvent] = []
    weight = 0
    for one in stored:
        weighs = cost(one.body)
        if portion and weight + weighs > PORTION_BYTES:
            yield portion
            await clock.sleep(0)  # takes no time, and lets other tasks of the loop run
            portion, weight = [], 0
        portion.append(one)
        weight += weighs
    if portion:
        yield portion
