"""The store of streams inside one process: lists on one event loop. It dies with its process, as the attempts do that use it.

Bounds: a stream holds what its producer has not kept as a blob yet, which is at most a piece and what is on its way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from perdure.clock import Clock, system
from perdure.streams import Behind, Chunks, Kept, Name, Over, Part, Superseded, link

MOST_CHUNKS = 256
"""Chunks that one read gives."""


class _Edition:
    """One edition of one stream."""

    __slots__ = (
        "attempt",
        "base",
        "chain",
        "edition",
        "mark",
        "over",
        "parts",
        "readers",
        "restarted",
        "sizes",
        "tail",
        "total",
    )

    def __init__(self, edition: int) -> None:
        self.edition = edition
        self.attempt = 0
        """The last attempt that went on with it."""
        self.chain = 0
        """What all chunks so far came to."""
        self.mark = (0, 0)
        """The last number of which the bytes were asked, and they: a tail of a million chunks is not added up at each look."""
        self.base = 1
        """The number of the first chunk of the tail."""
        self.tail: list[bytes] = []
        self.sizes = 0
        """Bytes of what is before the tail."""
        self.total = 0
        self.parts: list[tuple[Part, int]] = []
        """The pieces that are stored, each with the bytes up to its end."""
        self.readers: dict[str, int] = {}
        self.over: Over | None = None
        self.restarted = False

    @property
    def next(self) -> int:
        return self.base + len(self.tail)

    def size_upto(self, number: int) -> int:
        """The bytes up to and with this chunk; where it is kept, up to the end of the piece before it."""
        if number >= self.base - 1:
            known, size = self.mark if self.base - 1 <= self.mark[0] <= number else (self.base - 1, self.sizes)
            size += sum(map(len, self.tail[known - self.base + 1 : number - self.base + 1]))
            self.mark = (number, size)
            return size
        return max((size for part, size in self.parts if part.upto <= number), default=0)


class LocalStreams:
    def __init__(self, clock: Clock = system) -> None:
        self._clock = clock
        self._runs: dict[str, dict[str, _Edition]] = {}
        self._waiting: dict[tuple[str, str], list[asyncio.Future[None]]] = {}

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
        held = self._get(stream, edition, attempt)
        known = held.next - first
        if known >= 0:  # what is sent again is dropped by its number; behind a gap nothing is taken
            new = bodies[known:]
            if chain is not None and new:
                held.chain = link(chain, bodies)
            held.tail += new
            held.total += sum(map(len, new))
            self._wake(stream)
        return held.next

    async def claim(self, stream: Name, edition: int, attempt: int) -> tuple[int, int]:
        held = self._get(stream, edition, attempt)
        return held.next, held.chain

    async def keep(self, stream: Name, edition: int, part: Part, chain: int = 0) -> None:
        held = self._get(stream, edition)
        count = part.upto + 1 - held.base
        if count > 0:
            if part.upto >= held.next:
                held.chain = chain
            held.sizes += part.size
            held.total = max(held.total, held.sizes)
            held.parts.append((part, held.sizes))
            del held.tail[:count]
            held.base = part.upto + 1

    async def read(self, stream: Name, edition: int, reader: str, after: int) -> Chunks | Kept | Over:
        noted: _Edition | None = None
        while True:
            held = self._find(stream)
            if held is not None and (held.edition > edition or (held.edition == edition and held.restarted)):
                raise Superseded
            if held is not None and held.edition == edition:
                if reader and held is not noted:  # once: two attempts of a reader would wake each other for ever
                    noted = held
                    if held.readers.get(reader) != after:
                        held.readers[reader] = after
                        self._wake(stream)
                if after + 1 < held.base:
                    return Kept(tuple(part for part, _ in held.parts if part.upto > after))
                if held.next > after + 1:
                    start = after + 1 - held.base
                    return Chunks(after + 1, held.tail[start : start + MOST_CHUNKS])
                if held.over is not None:
                    return held.over
            await self._changed(stream)

    async def leave(self, stream: Name, reader: str) -> None:
        held = self._find(stream)
        if held is not None and held.readers.pop(reader, None) is not None:
            self._wake(stream)

    async def behind(self, stream: Name, edition: int) -> Behind:
        held = self._get(stream, edition)
        number = min(held.readers.values(), default=0)
        return Behind(number, held.total - held.size_upto(number))

    async def progress(self, stream: Name, edition: int, number: int, seconds: float) -> bool:
        until = self._clock.monotonic() + seconds
        while (left := until - self._clock.monotonic()) > 0:
            held = self._get(stream, edition)
            if held.readers and min(held.readers.values()) > number:
                return True
            loop = asyncio.get_running_loop()
            changed, timer = loop.create_task(self._changed(stream)), loop.create_task(self._clock.sleep(left))
            try:
                await asyncio.wait([changed, timer], return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
                timer.cancel()
        return False

    async def close(self, stream: Name, edition: int, over: Over | None, chunks: int, parts: Sequence[Part]) -> None:
        held = self._find(stream)
        if held is None or held.edition < edition:
            held = self._put(stream, edition)
        if held.edition != edition:
            return
        held.over, held.restarted = over, over is None
        if over is not None and over.reason == "end":  # all of it is stored
            sizes, held.parts = 0, []
            for part in parts:
                sizes += part.size
                held.parts.append((part, sizes))
            held.base, held.tail, held.sizes, held.total = chunks + 1, [], sizes, sizes
        self._wake(stream)

    async def drop(self, run_id: str) -> None:
        for place in self._runs.pop(run_id, {}):
            self._wake(Name(run_id, place))

    def lose(self) -> None:
        """Forget everything, as a server that comes back empty (F9)."""
        self._runs.clear()
        for run_id, place in list(self._waiting):
            self._wake(Name(run_id, place))

    # -- inside --------------------------------------------------------------------------------------------------------

    def _find(self, stream: Name) -> _Edition | None:
        return self._runs.get(stream[0], {}).get(stream[1])

    def _put(self, stream: Name, edition: int) -> _Edition:
        held = self._runs.setdefault(stream[0], {})[stream[1]] = _Edition(edition)
        return held

    def _get(self, stream: Name, edition: int, attempt: int = 0) -> _Edition:
        """The edition, begun where it is not there. Raises Superseded."""
        held = self._find(stream)
        if held is None or held.edition < edition:
            held = self._put(stream, edition)
            self._wake(stream)
        if held.edition > edition or held.restarted or (attempt and attempt < held.attempt):
            raise Superseded
        held.attempt = max(held.attempt, attempt)
        return held

    async def _changed(self, stream: Name) -> None:
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(stream[:2], []).append(change)
        try:
            await change
        finally:
            waiting = self._waiting.get(stream[:2], [])
            if change in waiting:
                waiting.remove(change)
                if not waiting:
                    del self._waiting[stream[:2]]

    def _wake(self, stream: Name) -> None:
        for change in self._waiting.pop(stream[:2], ()):
            if not change.done():
                change.set_result(None)
