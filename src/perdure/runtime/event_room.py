"""Room for events: how many of a tenant are kept, and what goes when there are more.

What triggers have still to read never goes. Counting is not free, so it is done when what was sent since the last time could
fill the room, and once a minute when it is half full: other processes send too.
"""

from __future__ import annotations

import asyncio

import msgspec

from perdure.clock import Clock
from perdure.topic_log import TopicLog

COUNT_SECONDS = 60.0
FULL_SECONDS = 5.0
"""How long a full room counts as full without another look, which reads all of it."""
_PAGE = 1000
_MOST_PAGES = 10


class _Count(msgspec.Struct):
    at: float
    """By the monotonic clock."""
    room: int
    full: bool = False


class EventRoom:
    def __init__(self, log: TopicLog, clock: Clock, most: int, seconds: float) -> None:
        self._log = log
        self._clock = clock
        self.most = most
        self.seconds = seconds
        """How long an event is kept where there is room."""
        self._counts: dict[str, _Count] = {}
        self._counting: dict[str, asyncio.Lock] = {}
        """By tenant: those that send at once would each make room for all of them."""

    async def make(self, tenant: str) -> bool:
        """Whether there is room for one more event, which is taken by it."""
        found = self._counts.get(tenant)
        if found is None or self._is_old(found):
            async with self._counting.setdefault(tenant, asyncio.Lock()):
                found = self._counts.get(tenant)
                if found is None or self._is_old(found):
                    found = self._counts[tenant] = await self._count(tenant)
        if found.full:
            return False
        found.room -= 1
        return True

    def _is_old(self, found: _Count) -> bool:
        age = self._clock.monotonic() - found.at
        if found.full:
            return age >= FULL_SECONDS
        return found.room <= 0 or (found.room < self.most // 2 and age >= COUNT_SECONDS)

    async def _count(self, tenant: str) -> _Count:
        room = self.most - await self._log.count_occurrences(tenant, self.most)
        wanted = max(1, self.most // 100)  # some more, so that not every event is one too many
        for _ in range(_MOST_PAGES if room <= 0 else 0):
            dropped = await self._log.drop_occurrences(tenant, min(_PAGE, wanted - room))
            room += dropped
            if not dropped or room >= wanted:
                break
        return _Count(self._clock.monotonic(), room, full=room <= 0)
