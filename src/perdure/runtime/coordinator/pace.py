"""Pace: makes long stretches of work on the loop give way to other tasks.

One piece of work (a message, a task to render) is bounded by its budget; many in a row are not. Owns how long a row may
be.
"""

from __future__ import annotations

from perdure.clock import Clock

STRETCH_SECONDS = 0.02
FEW = 100
"""How many small pieces in a row need no look at the clock."""


class Pace:
    __slots__ = ("_clock", "_until")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = 0.0

    def start(self) -> None:
        """Begin a stretch: the loop was free until now."""
        self._until = self._clock.monotonic() + STRETCH_SECONDS

    def is_over(self) -> bool:
        return self._clock.monotonic() > self._until

    async def rest_if_over(self) -> None:
        if self.is_over():
            await self.rest()

    async def rest(self) -> None:
        """Let all other tasks of the loop have a turn."""
        await self._clock.sleep(0)
        self.start()
