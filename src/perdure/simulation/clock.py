"""Clocks of simulated processes: virtual time, seeded chance, and each with its own idea of the wall time."""

from __future__ import annotations

import asyncio
from random import Random

from perdure.simulation.loop import SimLoop

EPOCH = 1_800_000_000.0


class SimClock:
    def __init__(self, loop: SimLoop, random: Random, name: str, skew: float = 0.0) -> None:
        self._loop = loop
        self._random = random
        self._prefix = f"{sum(name.encode()) % 4096:03x}{random.getrandbits(32):08x}"
        self._ids = 0
        self.skew = skew
        """Seconds by which this process's wall clock is ahead."""

    def now(self) -> float:
        return EPOCH + self._loop.time() + self._loop.ahead + self.skew

    def monotonic(self) -> float:
        """Seconds since the same moment in every process: the transport's clock is compared with it."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        if seconds > 0:
            seconds *= 1.0 + self._random.random() * 0.001  # so that no two sleepers wake at the same moment
        await asyncio.sleep(seconds)

    def random(self) -> float:
        return self._random.random()

    def new_id(self) -> str:
        self._ids += 1
        return f"{int(self._loop.time() * 1000) & 0xFFFFFFFFFF:010x}7{self._prefix}{self._ids:010x}"
