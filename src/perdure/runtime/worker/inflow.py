"""The inflows of one attempt: what it reads of other nodes' streams, each chunk once and in order (rules 65, 66, 72).

A chunk counts as read when the handler was given it, so a checkpoint holds exactly what its data was made of. What is kept is read from
blobs, the rest from the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

import msgspec

from perdure.chunks import Stream
from perdure.outcomes import Failure, StreamBroken
from perdure.pieces import count
from perdure.runtime.worker.streamed import Streamed
from perdure.streams import ASK_SECONDS, Chunks, Kept, Over, Source, Streams, Superseded, cursor_of, link, stream_name
from perdure.threads import aside
from perdure.transport import Task

_decode = msgspec.json.Decoder().decode
_MANY_PARTS = 50_000
_FEW_BYTES = 64 * 1024
"""Chunks of so many bytes together are read on the loop."""
_decode_raw = msgspec.json.Decoder(list[msgspec.Raw]).decode


def decode_bodies(data: bytes | bytearray) -> list[bytes]:
    """The chunks of a piece as they came."""
    return [bytes(body) for body in _decode_raw(data)]


def decode_chunks(bodies: Sequence[bytes]) -> list[Any]:
    """The values of chunks, one by one: a decoder lets no other thread have its turn, and a piece of empty lists takes a tenth of a second."""
    return [_decode(body) for body in bodies]


def decode_piece(data: bytes | bytearray) -> list[Any]:
    """The values of a piece. To be called beside the loop."""
    parts = count(data, b"[") + count(data, b"{")
    values: list[Any] = decode_chunks(decode_bodies(data)) if parts > _MANY_PARTS else _decode(data)
    return values


class _Feed:
    """One source: what was read of it and not given yet."""

    def __init__(
        self,
        streams: Streams,
        task: Task,
        source: Source,
        load: Callable[[str, bool], Awaitable[tuple[list[Any], list[bytes]]]],
        ask: Callable[[], Awaitable[None]],
        streamed: Streamed,
    ) -> None:
        self.source = source
        self.position = source.after
        """The number of the last chunk that the handler was given."""
        self.ready: list[Any] = []
        """Chunks at hand, the next one last."""
        self.chain = source.chain
        """What the chunks that the handler was given came to, of a source that repeats itself."""
        self._bodies: list[bytes] = []
        """The same chunks as `ready` as they came, if that counts."""
        self.over = False
        self.error = ""
        self.superseded = False
        self._tenant = task.tenant
        self._streamed = streamed
        self._streams = streams
        self._stream = stream_name(task.run_id, source.node, source.port, task.tenant, task.incarnation)
        # The next attempt takes the place of this one: who has died holds nobody up for longer than that.
        self._reader = f"{task.node}.{source.into}"
        self._load = load
        self._ask = ask
        self._parts = source.parts

    def pop(self) -> Any:
        self.position += 1
        if self._bodies:
            self.chain = link(self.chain, (self._bodies.pop(),))
        return self.ready.pop()

    async def fill(self) -> None:
        """Have a chunk ready, or know that there is none."""
        if self.ready or self.over:
            return
        source = self.source
        if source.state == "broken":
            self.over, self.error = True, source.error or "it has failed"
            return
        if source.state == "end" and self.position >= source.chunks:
            self.over = True
            return
        if (part := next((one for one in self._parts if one.upto > self.position), None)) is not None:
            values, bodies = await self._load(part.ref, self.source.repeats)
            missing = part.upto - self.position
            if missing > len(values):
                message = (
                    f"a piece of the stream of {source.node} is not known here any more; the next attempt knows it"
                )
                raise Failure("stream_lost", message)
            self._put_ready(values[len(values) - missing :], bodies[-missing:])
            return
        try:
            found = await self._read()
        except Superseded:
            self.superseded = True
            raise asyncio.CancelledError(f"the stream of {source.node} begins anew") from None
        if isinstance(found, Chunks):
            few = sum(map(len, found.bodies)) <= _FEW_BYTES
            bodies = found.bodies
            self._put_ready(decode_chunks(bodies) if few else await aside(self._tenant, decode_chunks, bodies), bodies)
        elif isinstance(found, Kept):
            self._parts = found.parts
        else:
            self.over = True
            self.error = "" if found.reason == "end" else found.error or found.reason

    def _put_ready(self, values: list[Any], bodies: list[bytes]) -> None:
        self.ready = values[::-1]
        self._streamed.read += len(values)
        if self.source.repeats:
            self._bodies = bodies[::-1]

    async def _read(self) -> Chunks | Kept | Over:
        """Read what comes next. Where nothing does, it is asked what has ended: the word of it may be lost."""
        while True:
            reading = self._streams.read(self._stream, self.source.edition, self._reader, self.position)
            try:
                return await asyncio.wait_for(reading, ASK_SECONDS)
            except TimeoutError:
                await self._ask_what_has_ended()

    async def _ask_what_has_ended(self) -> None:
        try:
            await self._ask()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if (
                task is not None and not task.cancelling()
            ):  # it is refused: this attempt is over, and nobody will tell it more
                self.superseded = True
            raise

    async def leave(self) -> None:
        await self._streams.leave(self._stream, self._reader)


class Inflow(Stream[Any]):
    """The stream of one parameter, from one source or several."""

    def __init__(self, feeds: list[_Feed], loop: asyncio.AbstractEventLoop) -> None:
        self._feeds = feeds
        self._loop = loop
        self._turn = 0

    def _pop(self, feed: _Feed) -> Any:
        value = feed.pop()
        self.position = feed.position
        return value

    async def next(self) -> tuple[bool, Any]:
        """The next chunk of whichever source has one. False when all have ended. Raises StreamBroken."""
        while (feed := self._find_ready()) is None:
            if not await self._wait():
                return False, None
        return True, self._pop(feed)

    async def has_more(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._wait()
        except StreamBroken:  # it is raised where the next chunk is asked for
            return True
        except TimeoutError:
            return False
        return True

    async def _wait(self) -> bool:
        """Have a chunk of some source at hand. False when all have ended. Raises StreamBroken."""
        while True:
            if any(feed.ready for feed in self._feeds):
                return True
            waiting = [feed for feed in self._feeds if not feed.over]
            if broken := next((feed for feed in self._feeds if feed.error), None):
                raise StreamBroken(broken.source.node, broken.error)
            if not waiting:
                return False
            if len(waiting) == 1:
                await waiting[0].fill()
                continue
            fills = [asyncio.get_running_loop().create_task(feed.fill()) for feed in waiting]
            try:
                done, _ = await asyncio.wait(fills, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for fill in fills:
                    fill.cancel()  # nothing is lost: what was not read is still there
            await asyncio.gather(*fills, return_exceptions=True)
            for fill in done:
                fill.result()

    def _find_ready(self) -> _Feed | None:
        """The source whose turn it is, of those that have a chunk at hand."""
        for _ in self._feeds:
            self._turn = (self._turn + 1) % len(self._feeds)
            if self._feeds[self._turn].ready:
                return self._feeds[self._turn]
        return None

    async def drain(self) -> None:
        """Read to the end, for a handler that returned before it."""
        for feed in self._feeds:
            while not feed.over:
                feed.position += len(feed.ready)
                feed.ready = []
                await feed.fill()

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[Any]:
        while True:
            more, value = await self.next()
            if not more:
                return
            yield value

    def __iter__(self) -> Iterator[Any]:
        """For a plain function, which runs in a thread. What is at hand it takes itself: while it does not wait for the loop,
        the loop touches none of it."""
        while True:
            if (feed := self._find_ready()) is not None:
                yield self._pop(feed)
                continue
            more, value = asyncio.run_coroutine_threadsafe(self.next(), self._loop).result()
            if not more:
                return
            yield value

    def run(self, made: AsyncIterator[Any]) -> Iterator[Any]:
        async def next_one() -> tuple[bool, Any]:
            async for value in made:
                return True, value
            return False, None

        while True:
            more, value = asyncio.run_coroutine_threadsafe(next_one(), self._loop).result()
            if not more:
                return
            yield value


class Inflows:
    """All that one attempt reads."""

    def __init__(
        self,
        streams: Streams,
        task: Task,
        sources: tuple[Source, ...],
        loop: asyncio.AbstractEventLoop,
        load: Callable[[str, bool], Awaitable[tuple[list[Any], list[bytes]]]],
        ask: Callable[[], Awaitable[None]],
        streamed: Streamed,
    ) -> None:
        self._feeds = [_Feed(streams, task, source, load, ask, streamed) for source in sources]
        names = dict.fromkeys(source.into for source in sources)
        self.by_name: dict[str, Inflow] = {
            name: Inflow([feed for feed in self._feeds if feed.source.into == name], loop) for name in names
        }

    def cursors(self) -> dict[str, tuple[int, ...]]:
        return {
            cursor_of(one.source): (one.source.edition, one.position, *((one.chain,) if one.source.repeats else ()))
            for one in self._feeds
        }

    @property
    def superseded(self) -> bool:
        """Whether something of it begins anew: no outcome of this attempt counts."""
        return any(feed.superseded for feed in self._feeds)

    async def drain(self) -> None:
        for inflow in self.by_name.values():
            await inflow.drain()

    async def leave(self) -> None:
        for feed in self._feeds:
            await feed.leave()
