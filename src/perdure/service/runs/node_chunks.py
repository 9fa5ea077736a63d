"""What a node yields, followed while it yields it and read afterwards (rule 74): chunks by edition and number.

What is stored is read from blobs, the rest from the store of chunks, where a reader without a name holds nobody up. Which
edition counts, and that one has ended, the journal says. It must not know HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from perdure.errors import NotFound
from perdure.journal import RunRecord
from perdure.kernel.lifecycle import ENDED
from perdure.kernel.state import Activation, State
from perdure.service.views import get_node, ports_of
from perdure.streams import Kept, Over, Part, Readable, Superseded, portions, stream_name
from perdure.threads import aside

if TYPE_CHECKING:
    from perdure.service.tenancy import Tenancy

ALIVE_SECONDS = 15.0
"""After how long without a chunk a reader is shown that the stream is alive."""
LOOK_SECONDS = 1.0
"""How often it is looked whether there is still something to wait for."""
MOST_CHUNKS = 256
MOST_BYTES = 256 * 1024
"""What is given at once: more would keep the loop."""

_raw = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Position(msgspec.Struct, frozen=True):
    """How far a reader is: the last chunk that it has, of which edition."""

    edition: int = 0
    number: int = 0

    def __str__(self) -> str:
        return f"{self.edition}.{self.number}"


START = Position()


class SomeChunks(msgspec.Struct, frozen=True):
    """Chunks as JSON; the first one has this number."""

    edition: int
    first: int
    bodies: Sequence[bytes]


class Anew(msgspec.Struct, frozen=True):
    """Another edition takes the place of the one that was read: what the reader has counts no more."""

    edition: int


class Ended(msgspec.Struct, frozen=True):
    """Nothing more comes."""

    edition: int
    number: int
    reason: str
    error: str = ""


News = SomeChunks | Anew | Ended | None
"""None: it is still alive."""


class ChunkReader:
    """The stream of one port of one node, from a position on."""

    def __init__(self, tenancy: Tenancy, run_id: str, node: str, port: str, at: Position, *, follow: bool) -> None:
        self._tenancy, self._engine = tenancy, tenancy.engine
        self._run_id, self._node, self._port = run_id, node, port
        self._edition, self._number = at.edition, at.number
        self._follow = follow
        self._silent = 0.0

    async def is_over(self) -> bool:
        """Whether the reader has all there will ever be. Raises NotFound where the node has no such stream."""
        _, found = await self._look()
        flow = None if found is None else found.flow
        if flow is None or flow.state != "end" or flow.edition != self._edition:
            return False
        return self._number >= sum(end.chunks for end in flow.ends if end.port == self._port)

    async def read(self) -> AsyncGenerator[News, None]:
        while not self._engine.feed.closed:
            record, found = await self._look()
            flow = None if found is None else found.flow
            if flow is not None and flow.edition != self._edition:
                if self._edition:
                    yield Anew(flow.edition)
                self._edition, self._number = flow.edition, 0
            if flow is not None:
                async with aclosing(self._stored(record, flow.parts)) as some:
                    async for one in some:
                        yield one
            if flow is not None and flow.state == "end":
                yield Ended(self._edition, self._number, "end")
                return
            streams = await self._engine.find_streams() if record.row.ended_at is None else None
            if flow is not None and flow.state != "restart" and streams is not None:
                async with aclosing(self._flowing(record, streams)) as news:
                    async for two in news:
                        yield two
            if flow is not None and flow.state in ("failed", "cancelled"):
                yield Ended(self._edition, self._number, flow.state, _said(found))
                return
            if record.row.ended_at is not None or (found is not None and flow is None and found.state in ENDED):
                yield Ended(self._edition, self._number, "cancelled" if flow is not None else "end")
                return
            if not self._follow:
                return
            if await self._is_news(record):
                continue
            yield None

    async def _look(self) -> tuple[RunRecord, Activation | None]:
        record, state = await self._tenancy.load(self._run_id)
        index = get_node(state, self._node)
        _check_port(state, index, self._node, self._port)
        return record, state.activations.get(index)

    async def _is_news(self, record: RunRecord) -> bool:
        """Wait for what the journal says next. False when that takes long."""
        following = self._engine.feed.follow(self._run_id, record.seq, idle_seconds=ALIVE_SECONDS)
        async with aclosing(following) as batches:
            async for events in batches:
                return bool(events)
        return True  # the run has ended, or this process does

    async def _stored(self, record: RunRecord, parts: tuple[Part, ...]) -> AsyncGenerator[SomeChunks, None]:
        """What these pieces hold behind the position."""
        tenant = record.row.tenant
        for part in parts:
            if part.port != self._port or part.upto <= self._number:
                continue
            data = await self._engine.contents.blobs.get(tenant, part.ref)
            bodies = await aside(tenant, _bodies, bytes(data), part.upto - self._number)
            for some in portions(bodies, MOST_CHUNKS, MOST_BYTES):
                yield self._pass_on(some)
                await self._engine.clock.sleep(0)  # a piece may hold hundreds of thousands of chunks

    async def _flowing(self, record: RunRecord, streams: Readable) -> AsyncGenerator[News, None]:
        """What the store of chunks has, until it has no more to say. It may not know that an edition is over."""
        incarnation = await self._engine.journal.incarnation()
        name = stream_name(self._run_id, self._node, self._port, record.row.tenant, incarnation)
        while not self._engine.feed.closed:
            reading = streams.read(name, self._edition, "", self._number)
            try:
                found = await asyncio.wait_for(reading, LOOK_SECONDS if self._follow else 0.2)
            except Superseded:
                return
            except TimeoutError:
                self._silent += LOOK_SECONDS
                if self._silent >= ALIVE_SECONDS:
                    self._silent = 0.0
                    yield None
                if self._follow and not await self._has_moved():
                    continue
                return
            if isinstance(found, Over):
                return
            if isinstance(found, Kept):
                async with aclosing(self._stored(record, found.parts)) as some:
                    async for one in some:
                        yield one
                continue
            for portion in portions(found.bodies, MOST_CHUNKS, MOST_BYTES):
                yield self._pass_on(portion)

    async def _has_moved(self) -> bool:
        """Whether the journal knows another edition than the one that is read, or that it is over."""
        record, found = await self._look()
        flow = None if found is None else found.flow
        return record.row.ended_at is not None or flow is None or (flow.edition, flow.state) != (self._edition, "open")

    def _pass_on(self, bodies: Sequence[bytes]) -> SomeChunks:
        first, self._number, self._silent = self._number + 1, self._number + len(bodies), 0.0
        return SomeChunks(self._edition, first, bodies)


def _check_port(state: State, index: int, node: str, port: str) -> None:
    ports = ports_of(state, index)
    if port not in ports:
        why = f"has no port {port!r} (it has: {', '.join(ports)})" if ports else "has no stream"
        raise NotFound(f"run {state.run_id}: node {node} {why}")


def _said(found: Activation | None) -> str:
    return "" if found is None or found.error is None else f"{found.error.code}: {found.error.message}"[:1000]


def _bodies(data: bytes, last: int) -> list[bytes]:
    """The last chunks of a piece, each on one line."""
    return [bytes(one).replace(b"\n", b" ").replace(b"\r", b" ") for one in _raw(data)[-last:]]
