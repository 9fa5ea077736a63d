"""Streams between nodes: chunks on their way from one attempt to others. This file is the port.

It owns what a task and a result say of streams, and what a store of chunks must offer. A store holds the tail of each stream, what
is not yet kept as a blob, and how far each reader is. It may lose all of it: what must not be lost is in the journal, a producer
sends again what it holds, and readers are told again what has ended (T1). A store never decides; it fences by the edition, which is
the attempt that yields: an older one is refused, a newer one takes its place.

Chunks have numbers from 1 on, without gap, in each port of an edition. What is sent again is dropped by its number (F3).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from perdure.kernel.values import Part, PortEnd

__all__ = ["Part", "PortEnd"]
"""What stands in another file and is read here."""

LARGEST_CHUNK = 256 * 1024
"""Bytes of JSON that one chunk may have."""
ASK_SECONDS = 10.0
"""How long nothing may come before a reader asks what has ended, and a producer looks whether the store has all it was sent: either may have been lost."""
STALL_SECONDS = 5.0
"""How long a producer waits for a reader that is too far behind and does not move; then it goes on (rule 68)."""


class Outgoing(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a task is told about the stream it may give."""

    collect: Literal["list", "text", "last", "count", "none"] = "list"
    buffer: int = 8 * 1024 * 1024
    ports: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    """The ports that have readers."""
    restart: Literal["anew", "repeat", "checkpoint"] = "anew"
    edition: int = 0
    """The edition to go on with; 0: the attempt begins its own."""
    parts: tuple[Part, ...] = ()
    """What is stored of it."""
    checks: tuple[tuple[str, int, int], ...] = ()
    """What the first chunks of a port came to, as readers have kept it: port, number, chain."""


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """One stream that a task reads."""

    node: str
    port: str
    into: str
    """The parameter that takes it."""
    edition: int
    state: Literal["open", "end", "broken"] = "open"
    """How it was when the task was sent."""
    chunks: int = 0
    """How many there are, if it has ended."""
    parts: tuple[Part, ...] = ()
    after: int = 0
    """How far an earlier attempt has read it for its checkpoint."""
    error: str = ""
    repeats: bool = False
    """Whether it must be noted what its chunks come to (`link`)."""
    chain: int = 0
    """What those up to `after` came to."""


class Flowing(msgspec.Struct, frozen=True, omit_defaults=True):
    """The streams of a task."""

    out: Outgoing | None = None
    reads: tuple[Source, ...] = ()
    early: bool = False
    """Whether it may end before what it reads."""


class Flowed(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a result says of streams: one of these, or an end."""

    opened: tuple[str, ...] = ()
    kept: Part | None = None
    chain: int = 0
    """What the chunks up to there came to, of a node that repeats itself."""
    cursors: dict[str, tuple[int, ...]] | None = None
    covered: tuple[tuple[int, Part], ...] = ()
    """With a checkpoint: the pieces of its own stream that it covers, each with the number behind which it begins."""
    ended: tuple[PortEnd, ...] = ()
    parts: tuple[Part, ...] = ()
    waits: bool = False
    """Nothing has come for long: what has ended is to be told again."""


def link(chain: int, bodies: Iterable[bytes]) -> int:
    """What the chunks up to these come to, from what those before them did: the same only if all are the same."""
    for body in bodies:
        chain = zlib.crc32(body, zlib.crc32(b"\n", chain))
    return chain


class Chunks(msgspec.Struct, frozen=True):
    """Chunks as JSON, in order; the first has this number."""

    first: int
    bodies: list[bytes]


class Kept(msgspec.Struct, frozen=True):
    """What is wanted is stored: these pieces hold it."""

    parts: tuple[Part, ...]


class Over(msgspec.Struct, frozen=True):
    """There are no more chunks. With an error, the stream is broken."""

    reason: Literal["end", "failed", "cancelled"]
    error: str = ""


class Superseded(Exception):
    """Another edition has taken the place of this one."""


class Behind(msgspec.Struct, frozen=True):
    """How far the slowest reader is: the number of the last chunk it has taken, and the bytes of what was appended since: of an
    append that it has taken a part of, all."""

    number: int
    size: int


class Name(NamedTuple):
    """The name of a stream: its run, and its place in that. The tenant is whose word counts for it."""

    run_id: str
    place: str
    tenant: str = "default"


def stream_name(run_id: str, node: str, port: str, tenant: str = "default", incarnation: int = 1) -> Name:
    """After a restore numbers of attempts are given out again: what the store still has of the time before is of another name."""
    return Name(run_id, f"{node}.{port}" + (f"~{incarnation}" if incarnation > 1 else ""), tenant)


def cursor_of(source: Source) -> str:
    """The name under which a checkpoint holds how far this source was read."""
    return f"{source.node}.{source.port}.{source.into}"


def portions(bodies: Sequence[bytes], most: int, size: int) -> Iterator[Sequence[bytes]]:
    """Chunks in portions of at most so many and so many bytes; a larger one is a portion by itself."""
    start = taken = 0
    for place, body in enumerate(bodies):
        if place > start and (place - start >= most or taken + len(body) > size):
            yield bodies[start:place]
            start, taken = place, 0
        taken += len(body)
    if start < len(bodies):
        yield bodies[start:]


class Readable(Protocol):
    """What one needs who only looks on."""

    async def read(self, stream: Name, edition: int, reader: str, after: int) -> Chunks | Kept | Over:
        """As `Streams.read`."""
        ...


class Streams(Protocol):
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
        """Add chunks, of which the first has this number; with what those before it came to, where that counts. Returns the
        number that is expected next: a lower one than sent says what is missing. Raises Superseded, also for an attempt before the
        last that has said its number."""
        ...

    async def claim(self, stream: Name, edition: int, attempt: int) -> tuple[int, int]:
        """Let this attempt go on with an edition, and none before it. Returns the number that is expected next, and what the chunks
        before it came to. Raises Superseded."""
        ...

    async def keep(self, stream: Name, edition: int, part: Part, chain: int = 0) -> None:
        """Hold no longer what is stored in this piece. With what the chunks up to its end came to, where that counts."""
        ...

    async def read(self, stream: Name, edition: int, reader: str, after: int) -> Chunks | Kept | Over:
        """Wait for what comes after this number. What comes before it the reader has taken; one without a name holds nobody up.
        Raises Superseded."""
        ...

    async def leave(self, stream: Name, reader: str) -> None:
        """Forget a reader: it holds nobody up any more."""
        ...

    async def behind(self, stream: Name, edition: int) -> Behind:
        """How far the slowest reader is; nobody who reads is at 0."""
        ...

    async def progress(self, stream: Name, edition: int, number: int, seconds: float) -> bool:
        """Wait until every reader is beyond this number. False if that has not come in so many seconds."""
        ...

    async def close(self, stream: Name, edition: int, over: Over | None, chunks: int, parts: Sequence[Part]) -> None:
        """Note that an edition is over: for coordinators, after the append that says so. With None it begins anew."""
        ...

    async def drop(self, run_id: str) -> None:
        """Forget every stream of a run."""
        ...
