"""Streams over Redis: the tail of each, what is kept of it, how it ended, and how far its readers are.

All that one run has stands under one hash tag, and each operation is one script. Chunks travel in signed segments; so do the
pieces and the end, and they show which edition there is: a reader that finds something else waits for what the journal says (X29). Losing all of it costs time: its
writer sends the tail again, and coordinators say again what has ended (T1).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from perdure.clock import Clock
from perdure.streams import Behind, Chunks, Kept, Name, Over, Part, Superseded, link, portions
from perdure.transport import TransportClosed, TransportUnavailable
from perdure.transports.envelopes import EnvelopeRefused
from perdure.transports.redis.link import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Arguments, Link
from perdure.transports.redis.messages import Claim, End, Messages, OfStream, Piece, Segment
from perdure.transports.redis.names import STREAM_SECONDS, Keys, encode
from perdure.transports.redis.wakes import POLL_SECONDS, Ticket, Wakes

SEGMENT_CHUNKS = 256
SEGMENT_BYTES = 64 * 1024
READ_BYTES = 256 * 1024
"""How many bytes one read gives; the segment that exceeds it comes along."""
APPEND_BYTES = 1024 * 1024
"""How many bytes one call of the script takes: the server does nothing else meanwhile."""

_log = logging.getLogger(__name__)


class RedisStreams:
    def __init__(self, link: Link, wakes: Wakes, keys: Keys, messages: Messages, clock: Clock, *, process: str) -> None:
        self._link = link
        self._wakes = wakes
        self._keys = keys
        self._messages = messages
        self._clock = clock
        self._process = encode(process)
        self._channel = keys.wake_streams(process)
        self._waiting: dict[str, set[Ticket]] = {}
        self._listens = False

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
        while True:
            segments: Arguments = [attempt]
            number, size, come_to = first, 0, chain or 0
            for some in portions(bodies, SEGMENT_CHUNKS, SEGMENT_BYTES):
                taken = sum(map(len, some))
                come_to = link(come_to, some) if chain is not None else 0
                segments += [number, len(some), taken, self._segment(stream, edition, number, some, come_to)]
                number, size = number + len(some), size + taken
                if size >= APPEND_BYTES:
                    break
            known: int = await self._run("append_chunks", stream, edition, segments)
            if not known:
                await self._doubt(stream, edition, attempt)
                continue
            left = first + len(bodies) - known
            if known <= first or left <= 0:
                return known
            # Behind what was known, or behind what one call takes.
            chain = link(chain, bodies[: known - first]) if chain is not None else None
            bodies, first = bodies[known - first :], known
            self._link.check_open()

    async def claim(self, stream: Name, edition: int, attempt: int) -> tuple[int, int]:
        claim = self._encode("claim", Claim(attempt=attempt, **_about(stream, edition)))
        while True:
            expected, segment, piece = await self._run("claim_stream", stream, edition, [attempt, claim])
            if expected:
                break
            await self._doubt(stream, edition, attempt)
        for kind, message in (("chunks", segment), ("piece", piece)):
            try:
                found = self._decode(kind, message, stream, edition) if message else None
            except EnvelopeRefused:
                continue
            if found is not None and _last(found) + 1 == expected:
                return expected, found.chain
        return 1, 0  # nothing that is signed shows more

    async def keep(self, stream: Name, edition: int, part: Part, chain: int = 0) -> None:
        piece = self._encode("piece", Piece(part=part, chain=chain, **_about(stream, edition)))
        while not await self._run("keep_piece", stream, edition, [part.upto, part.size, piece]):
            await self._doubt(stream, edition)

    async def read(self, stream: Name, edition: int, reader: str, after: int) -> Chunks | Kept | Over:
        with self._ticket(stream) as ticket:
            while True:
                self._link.check_open()
                ticket.clear()
                what, *messages = await self._run(
                    "read_chunks", stream, edition, [reader, after, self._process, READ_BYTES]
                )
                if what == b"restart":
                    await self._doubt(stream, edition)
                    continue
                try:
                    found = self._believe(what, messages, stream, edition, after)
                except EnvelopeRefused:
                    found = None
                if found is not None:
                    return found
                await ticket.wait(POLL_SECONDS)

    async def leave(self, stream: Name, reader: str) -> None:
        with contextlib.suppress(TransportUnavailable):  # the next attempt of the same reader takes its place
            await self._call("leave_stream", stream, 0, [reader])

    async def behind(self, stream: Name, edition: int) -> Behind:
        number, size, _ = await self._behind(stream, edition, "")
        return Behind(number, size)

    async def progress(self, stream: Name, edition: int, number: int, seconds: float) -> bool:
        until = self._clock.monotonic() + seconds
        with self._ticket(stream) as ticket:
            while True:
                self._link.check_open()
                ticket.clear()
                slowest, _, readers = await self._behind(stream, edition, self._process)
                if readers and slowest > number:
                    return True
                left = until - self._clock.monotonic()
                if left <= 0:
                    return False
                await ticket.wait(min(left, POLL_SECONDS))

    async def close(self, stream: Name, edition: int, over: Over | None, chunks: int, parts: Sequence[Part]) -> None:
        about = _about(stream, edition)
        if over is None:
            anew = self._encode("restart", OfStream(**about))
            await self._call("close_stream", stream, edition, ["restart", anew, 0])
            return
        message = self._encode("end", End(over=over, **about))
        if over.reason != "end":
            await self._call("close_stream", stream, edition, ["over", message, 0])
            return
        pieces: Arguments = []
        for part in parts:
            pieces += [part.upto, part.size, self._encode("piece", Piece(part=part, **about))]
        await self._call("close_stream", stream, edition, ["end", message, chunks, *pieces])

    async def drop(self, run_id: str) -> None:
        await self._link.run("drop_streams", [self._keys.places(run_id)], [self._keys.streams(run_id)])

    # inside

    async def _run(self, script: str, stream: Name, edition: int, arguments: Arguments) -> Any:
        """For attempts: a server that is away costs them time."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return await self._call(script, stream, edition, arguments)
            except TransportClosed:
                raise
            except TransportUnavailable as error:
                if pause == FIRST_PAUSE_SECONDS:
                    _log.warning("run %s: the stream of %s waits: %s", stream.run_id, stream.place, error)
                await self._clock.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _call(self, script: str, stream: Name, edition: int, arguments: Arguments) -> Any:
        about: Arguments = [edition, encode(stream.place), self._keys.wake_streams(), _said(stream), STREAM_SECONDS]
        return await self._link.run(script, self._keys.stream(stream.run_id, stream.place), [*about, *arguments])

    async def _behind(self, stream: Name, edition: int, process: str) -> tuple[int, int, int]:
        while True:
            number, size, readers = await self._run("find_behind", stream, edition, [process])
            if number >= 0:
                return number, size, readers
            await self._doubt(stream, edition)

    async def _doubt(self, stream: Name, edition: int, attempt: int = 0) -> None:
        """Raises Superseded, if something that is signed shows that another edition, or a later attempt, is there, or that this one begins anew. Otherwise the
        number was written by another client, who would hold up this stream for as long as it stands there: it is forgotten, as if it
        had been lost (X29)."""
        there, *messages = await self._run("doubt_stream", stream, edition, [""])
        for kind, message in zip(("restart", "chunks", "piece", "end", "claim"), messages, strict=True):
            if message and self._shows(kind, message, stream, edition, attempt):
                raise Superseded
        self._messages.refuse("edition", f"an edition of {stream.place} of run {stream.run_id} that nothing shows")
        await self._run("doubt_stream", stream, edition, [there])

    def _shows(self, kind: str, message: bytes, stream: Name, edition: int, attempt: int) -> bool:
        try:
            with self._messages.reading(kind):
                found: OfStream = self._messages.decode_lines(kind, message)
        except EnvelopeRefused:
            return False
        if (found.tenant, found.run_id, found.place) != (stream.tenant, stream.run_id, stream.place):
            return False
        if found.edition == edition and isinstance(found, Claim):
            return found.attempt > attempt > 0
        return found.edition > edition or (kind == "restart" and found.edition == edition)

    def _encode(self, kind: str, message: OfStream) -> bytes:
        return self._messages.encode_lines(kind, message, message.tenant)

    def _segment(self, stream: Name, edition: int, first: int, bodies: Sequence[bytes], chain: int) -> bytes:
        chunks = [msgspec.Raw(body) for body in bodies]
        return self._encode("chunks", Segment(first=first, chunks=chunks, chain=chain, **_about(stream, edition)))

    def _believe(
        self, what: bytes, messages: list[bytes], stream: Name, edition: int, after: int
    ) -> Chunks | Kept | Over | None:
        """What a read gave, verified; None: nothing. Raises `EnvelopeRefused`, having counted and logged the refusal."""
        match what:
            case b"chunks":
                return self._chunks([self._decode("chunks", one, stream, edition) for one in messages], after)
            case b"kept":
                parts = tuple(self._decode("piece", one, stream, edition).part for one in messages)
                return Kept(parts) if parts else None
            case b"over":
                over: Over = self._decode("end", messages[0], stream, edition).over
                return over
        return None

    def _chunks(self, segments: list[Segment], after: int) -> Chunks | None:
        bodies: list[bytes] = []
        for segment in segments:
            begins = after + len(bodies) + 1 - segment.first
            if begins < 0:
                break  # behind a gap, which only another client can have made
            bodies += [bytes(one) for one in segment.chunks[begins:]]
        return Chunks(after + 1, bodies) if bodies else None

    def _decode(self, kind: str, message: bytes, stream: Name, edition: int) -> Any:
        with self._messages.reading(kind):
            found: OfStream = self._messages.decode_lines(kind, message)
            if (found.tenant, found.run_id, found.place, found.edition) != (
                stream.tenant,
                stream.run_id,
                stream.place,
                edition,
            ):
                self._messages.refuse(kind, f"{kind} of {found.run_id} in the place of {stream.run_id}")
                raise EnvelopeRefused("it belongs elsewhere")
            return found

    # wake-ups

    def _ticket(self, stream: Name) -> _Waiting:
        if not self._listens:
            self._listens = True
            self._wakes.on([self._channel], self._woken)
        return _Waiting(self._waiting, _said(stream))

    def _woken(self, said: str) -> None:
        """Wake who waits for this stream; for an empty text everybody, as something may have been missed."""
        some = [self._waiting.get(said, set())] if said else list(self._waiting.values())
        for tickets in some:
            for ticket in tickets:
                ticket.wake()


class _Waiting:
    """One ticket among those that wait for a stream, for as long as it is needed."""

    def __init__(self, waiting: dict[str, set[Ticket]], name: str) -> None:
        self._waiting, self._name, self._ticket = waiting, name, Ticket()

    def __enter__(self) -> Ticket:
        self._waiting.setdefault(self._name, set()).add(self._ticket)
        return self._ticket

    def __exit__(self, *raised: object) -> None:
        tickets = self._waiting[self._name]
        tickets.discard(self._ticket)
        if not tickets:
            del self._waiting[self._name]


def _last(found: Any) -> int:
    """The number of the last chunk of a segment or a piece."""
    return found.part.upto if isinstance(found, Piece) else found.first + len(found.chunks) - 1


def _about(stream: Name, edition: int) -> dict[str, Any]:
    return {"tenant": stream.tenant, "run_id": stream.run_id, "place": stream.place, "edition": edition}


def _said(stream: Name) -> str:
    return f"{encode(stream.run_id)}/{encode(stream.place)}"
