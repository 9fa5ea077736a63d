"""The store of streams between simulated processes: slow, forgetful, and told the same twice (F8, F9).

It owns the faults of chunks on their way, and what is noticed of who waits for whom. What a reader is given is judged where it is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from perdure.clock import Clock
from perdure.runtime.worker import outflow
from perdure.streams import STALL_SECONDS, Behind, Chunks, Kept, Name, Over, Part
from perdure.transports.local_streams import LocalStreams

if TYPE_CHECKING:
    from perdure.simulation.world import World

_SLACK_SECONDS = 1.0


class _Credit:
    """What a producer has learnt of its slowest reader."""

    def __init__(self) -> None:
        self.asked = True
        """Whether it has looked since it last appended."""
        self.far = -1
        """Where the reader was that is too far behind."""
        self.stalled = -1
        """Where a reader was that did not move in time."""


class SimStreams(LocalStreams):
    def __init__(self, world: World, clock: Clock, chance: Random, rate: float, buffer: int) -> None:
        super().__init__(clock)
        self._world = world
        self._chance = chance
        self._rate = rate
        self._buffer = buffer
        self._credits: dict[tuple[Name, int], _Credit] = {}
        self._read: dict[tuple[Name, int, str], int] = {}
        """How far each reader has said it is."""

    def lose(self) -> None:
        self._credits.clear()
        self._read.clear()
        super().lose()

    def _happens(self, fault: str) -> bool:
        if self._world.chaos.healed or self._chance.random() >= self._rate:
            return False
        self._world.note_fault(f"chunks_{fault}", "")
        return True

    async def _travel(self, stream: Name) -> None:
        """A way to the store or back: it may take long, and the store may have lost something meanwhile."""
        if self._happens("late"):
            await asyncio.sleep(self._chance.random() ** 2 * 15)
        if self._happens("lost") and stream.run_id in self._runs:
            self._runs[stream.run_id].pop(stream.place, None)
            self._wake(stream)
        if self._chance.random() < 0.1 and self._happens("flushed"):
            self.lose()

    async def append(
        self,
        stream: Name,
        edition: int,
        first: int,
        bodies: Sequence[bytes],
        *,
        attempt: int = 0,
        chain: int | None = None,
    ) -> int:
        await self._travel(stream)
        if len(bodies) > 1 and self._happens("torn"):
            bodies = bodies[: len(bodies) // 2]
        held = self._find(stream)
        if bodies and held is not None and held.edition == edition and first + len(bodies) > held.next:
            self._judge_credit(stream, edition)
        found = await super().append(stream, edition, first, bodies, attempt=attempt, chain=chain)
        if self._happens("doubled"):
            await self._travel(stream)
            found = await super().append(stream, edition, first, bodies, attempt=attempt, chain=chain)
        await self._travel(stream)
        return found

    def _judge_credit(self, stream: Name, edition: int) -> None:
        """F8: who is too far ahead of a reader that moves has waited for it."""
        credit = self._credits.setdefault((stream, edition), _Credit())
        held = self._find(stream)
        if held is None or not held.readers:
            return
        number = min(held.readers.values())
        if not credit.asked and self._rate == 0 and held.next - 1 - number > outflow.MOST_BEHIND:
            self._world.checks.fail("F8", f"{stream.place} is ahead of a reader at {number}, and does not look")
        if credit.far >= 0 and credit.far == number != credit.stalled:
            self._world.checks.fail("F8", f"{stream.place} goes on, and its reader is at {number} and not waited for")
        credit.asked = False

    async def behind(self, stream: Name, edition: int) -> Behind:
        found = await super().behind(stream, edition)
        held = self._get(stream, edition)
        credit = self._credits.setdefault((stream, edition), _Credit())
        is_far = found.size > self._buffer or held.next - 1 - found.number > outflow.MOST_BEHIND
        credit.asked, credit.far = True, found.number if is_far and held.readers else -1
        return found

    async def progress(self, stream: Name, edition: int, number: int, seconds: float) -> bool:
        begun = self._clock.monotonic()
        moved = await super().progress(stream, edition, number, seconds)
        stops = any(name.startswith(("stop_", "clock_")) for name in self._world.plan.rates)
        if self._clock.monotonic() - begun > STALL_SECONDS + _SLACK_SECONDS and not stops:
            self._world.checks.fail("F8", f"{stream.place} waited for a reader for {seconds} s")
        held = self._find(stream)
        known = {} if held is None or held.edition != edition else held.readers
        for reader, at in known.items() if not moved else ():
            if at <= number < self._read.get((stream, edition, reader), 0):
                self._world.checks.fail("F8", f"{stream.place} is not told that {reader} is beyond {number}")
        if not moved:
            self._credits.setdefault((stream, edition), _Credit()).stalled = number
        return moved

    async def claim(self, stream: Name, edition: int, attempt: int) -> tuple[int, int]:
        await self._travel(stream)
        return await super().claim(stream, edition, attempt)

    async def keep(self, stream: Name, edition: int, part: Part, chain: int = 0) -> None:
        await self._travel(stream)
        await super().keep(stream, edition, part, chain)

    async def read(self, stream: Name, edition: int, reader: str, after: int) -> Chunks | Kept | Over:
        if reader:
            self._read[stream, edition, reader] = after
        found = await super().read(stream, edition, reader, after)
        await self._travel(stream)
        return found

    async def close(self, stream: Name, edition: int, over: Over | None, chunks: int, parts: Sequence[Part]) -> None:
        if self._happens("unsaid"):  # who waits for the word asks for it
            return
        if over is not None and over.reason == "end":
            self._judge_end(stream, edition)
        await super().close(stream, edition, over, chunks, parts)

    async def leave(self, stream: Name, reader: str) -> None:
        for one in [one for one in self._read if (one[0], one[2]) == (stream, reader)]:
            del self._read[one]
        await super().leave(stream, reader)

    def _judge_end(self, stream: Name, edition: int) -> None:
        """F5: no reader is told of an end that is not in the journal."""
        checker = self._world.checks.checkers.get(stream.run_id)
        act = None if checker is None else checker.model.acts.get((stream.place.partition(".")[0], (), None))
        ended = act is not None and (act.edition > edition or (act.edition == edition and act.stream == "end"))
        if not ended and not self._world.rolled_back:
            self._world.checks.fail(
                "F5", f"readers of {stream.place} are told of an end that the journal does not know"
            )
