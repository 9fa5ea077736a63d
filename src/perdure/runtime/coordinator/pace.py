"""Pace: long stretches of work on the loop make room for others.

One piece of work (a message, a task to render) is bounded by its budget; many of them in a row are not. Owns how long a row may be.
"""

from __future__ import annotations

from perdure.clock import Clock

STRETCH_SECONDS = 0.02


class Pace:
    __slots__ = ("_clock", "_until")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = 0.0

    def start(self) -> None:
        """The loop was free until now."""
        self._until = self._clock.monotonic() + STRETCH_SECONDS

    def is_over(self) -> bool:
        return self._clock.monotonic() > self._until

    async def rest(self) -> None:
        """Let everybody else have a turn."""
        await self._clock.sleep(0)
        self.start()
