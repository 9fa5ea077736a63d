"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import itertools


class FakeClock:
    def __init__(self, now: float = 1_000_000.0) -> None:
        self._now = now
        self._ids = itertools.count(1)
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    def random(self) -> float:
        return 0.5

    def new_id(self) -> str:
        return f"{next(self._ids):032x}"

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:  # one turn of the loop, no time
            await asyncio.sleep(0)
            return
        sleeper = (self._now + max(0.0, seconds), asyncio.get_running_loop().create_future())
        self._sleepers.append(sleeper)
        try:
            await sleeper[1]
        finally:
            self._sleepers.remove(sleeper)

    @property
    def sleeping(self) -> list[float]:
        """How long those who sleep will still do so."""
        return sorted(until - self._now for until, _ in self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Time passes; whoever wakes on the way wakes in order, at the time it asked for."""
        end = self._now + seconds
        await _settle()
        while due := sorted((until, number) for number, (until, _) in enumerate(self._sleepers) if until <= end):
            until, number = due[0]
            self._now = max(self._now, until)
            future = self._sleepers[number][1]
            if not future.done():
                future.set_result(None)
            await _settle()
        self._now = end
        await _settle()


async def _settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)
