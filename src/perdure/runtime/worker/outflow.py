"""The outflow of one attempt: what its handler yields, on its way to readers, into blobs, and into the output (rules 61, 68, 73).

A pump takes what was yielded and appends it to the store, so that chunks that come fast travel together. What fills a piece is stored
as a blob and reported before the next piece begins: until then the outflow holds it, and can send it again. The stream is opened
for the first chunk: nothing is written before the journal has let this execution write, as its task may have been delivered twice.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from perdure.kernel.values import Part, PortEnd
from perdure.outcomes import Failure
from perdure.runtime.worker.streamed import Streamed
from perdure.secrets.joints import Joints
from perdure.secrets.scrubber import Scrubber
from perdure.streams import (
    ASK_SECONDS,
    LARGEST_CHUNK,
    STALL_SECONDS,
    Behind,
    Flowed,
    Name,
    Outgoing,
    Streams,
    Superseded,
    stream_name,
)
from perdure.threads import aside
from perdure.transport import Task

PART_BYTES = 4 * 1024 * 1024
LARGEST_LIST = 8 * 1024 * 1024
"""The most bytes of chunks that an output holds; beyond that it says where they are."""
FEW_BYTES = 64 * 1024
"""An output of so many bytes of chunks is made on the loop."""
HELD_SECONDS = 1.0
"""How long a text is held back that may be the beginning of a secret."""
MOST_PENDING = 64
"""Chunks that wait for the pump before the handler does."""
MOST_BEHIND = 10_000
"""Chunks that a reader may be behind."""

_decode = msgspec.json.Decoder().decode


class Port:
    """One port of a stream that is made. Who goes on with an edition knows more of it than was taken here."""

    __slots__ = (
        "accepted",
        "behind_at",
        "chain",
        "count",
        "kept_chain",
        "parts",
        "pending",
        "sent",
        "sent_chain",
        "size",
        "unkept",
        "unkept_size",
        "unread",
    )

    def __init__(self) -> None:
        self.pending: list[bytes] = []
        self.unkept: list[bytes] = []
        """Chunks that the pump has taken and are in no piece yet."""
        self.unkept_size = 0
        self.accepted = 0
        """The number of the last chunk that the pump has taken."""
        self.sent = 0
        """The number of the last chunk that the store has."""
        self.chain = self.sent_chain = self.kept_chain = 0
        """What the chunks up to those two, and to the last piece, came to, where that counts."""
        self.count = 0
        self.size = 0
        self.parts: list[Part] = []
        self.behind_at = -1
        """Where the slowest reader was when it was waited for in vain: it is not waited for again before it moves."""
        self.unread = 0
        """How many chunks that one had not taken when it was last looked at."""

    @property
    def kept(self) -> int:
        return self.parts[-1].upto if self.parts else 0


class Outflow:
    def __init__(
        self,
        streams: Streams,
        task: Task,
        spec: Outgoing,
        *,
        report: Callable[[Flowed], Awaitable[None]],
        store: Callable[[bytes], Awaitable[str]],
        streamed: Streamed,
        scrubber: Scrubber | None = None,
    ) -> None:
        self.superseded = False
        """Whether another attempt, or another execution of this one, streams."""
        self._streams = streams
        self._task = task
        self._spec = spec
        self._streamed = streamed
        self._report = report
        self._store = store
        self._edition = spec.edition or task.attempt
        self._ports: dict[str, Port] = {name: Port() for name in ("out", *spec.ports)}
        self._whole: list[bytes] | None = []
        """All chunks of `out`, while the output may hold them."""
        self._last: bytes = b"null"
        self._yielded = False
        self._opened = self._is_closed = False
        self._pumping: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._scrubber = scrubber
        self._joints: dict[str, Joints] = {}
        """Of each port that has yielded text: what is held back of it, since a secret may go on in the next chunk."""
        self._letting_go: asyncio.TimerHandle | None = None

    def add(self, port: str, body: bytes) -> bool:
        """Take a chunk. True when the handler should wait (`settle`) before it yields the next one."""
        self.check(port, body)
        if not self._scrubber:
            return self._enqueue(port, body)
        joints = self._joints.setdefault(port, Joints(self._scrubber))
        if not body.startswith(b'"'):
            self._enqueue_all(port, joints.let_go())
            return self._enqueue(port, body)
        text = _decode(body)
        free = joints.pass_on(text)
        if joints.is_holding and self._letting_go is None:
            self._letting_go = asyncio.get_running_loop().call_later(HELD_SECONDS, self.let_go)
        if free == [text]:
            return self._enqueue(port, body)
        return self._enqueue_all(port, free)

    def let_go(self) -> None:
        """Give what is held back: what may be a part of a secret is masked."""
        if self._letting_go is not None:
            self._letting_go.cancel()
            self._letting_go = None
        for port, joints in self._joints.items():
            self._enqueue_all(port, joints.let_go())

    def _enqueue_all(self, port: str, texts: list[str]) -> bool:
        taken = [self._enqueue(port, msgspec.json.encode(text)) for text in texts]
        return any(taken)

    def _enqueue(self, port: str, body: bytes) -> bool:
        found = self._ports[port]
        first = not found.count
        found.pending.append(body)
        found.count += 1
        found.size += len(body)
        if port == "out":
            self._collect(found, body)
        if self._pumping is None:
            self._pumping = asyncio.get_running_loop().create_task(self._pump())
        self._idle.clear()
        self._wake.set()
        return first or len(found.pending) >= MOST_PENDING

    def check(self, port: str, body: bytes) -> None:
        """Raise Failure for a chunk that cannot be taken. From any thread."""
        if port not in self._ports:
            known = ", ".join(self._ports)
            message = f"{self._task.node} has no port {port!r} (it has: {known}); add it: stream: {{ports: [{port}]}}"
            raise Failure("no_such_port", message, retryable=False)
        if len(body) > LARGEST_CHUNK:
            message = f"a chunk of {self._task.node} has {len(body):,} bytes, and {LARGEST_CHUNK:,} are allowed; yield it in pieces"
            raise Failure("bad_output", message, retryable=False)

    def _collect(self, port: Port, body: bytes) -> None:
        self._last, self._yielded = body, True
        if self._whole is not None and self._spec.collect in ("list", "text"):
            self._whole.append(body)
            if port.size > LARGEST_LIST:
                self._whole = None

    async def settle(self) -> None:
        """Wait until everything that was yielded is on its way. Raises what went wrong with it."""
        pumping = self._pumping
        if pumping is None:
            return
        idle = asyncio.get_running_loop().create_task(self._idle.wait())
        try:
            await asyncio.wait([idle, pumping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            idle.cancel()
        if pumping.done():
            pumping.result()

    async def end(self) -> tuple[Any, Flowed]:
        """The output, and what the result says of the stream. Everything is stored then."""
        await self.end_texts()
        for name, port in self._ports.items():
            if port.unkept:
                await self._keep(name, port, report=False)
        self.close()
        ended = tuple(PortEnd(name, port.count, port.size) for name, port in self._ports.items())
        parts = tuple(part for port in self._ports.values() for part in port.parts)
        before = await self._load_before()
        if self._ports["out"].size <= FEW_BYTES:
            return self._output(before), Flowed(ended=ended, parts=parts)
        return await aside(self._task.tenant, self._output, before), Flowed(ended=ended, parts=parts)

    async def end_texts(self) -> None:
        """Send what was held back, and wait until everything that was yielded is on its way: nothing more comes."""
        for port, joints in self._joints.items():
            self._enqueue_all(port, joints.end())
        await self.settle()

    async def _load_before(self) -> list[Any]:
        """What its output is made of besides what it has yielded itself."""
        return []

    def close(self) -> None:
        if self._letting_go is not None:
            self._letting_go.cancel()
        self._is_closed = True  # the pump may be woken in this very moment, and take no notice of being cancelled
        if self._pumping is not None:
            self._pumping.cancel()
        for port in self._ports.values():
            self._note_unread(port, 0)

    def _output(self, before: list[Any]) -> Any:
        out = self._ports["out"]
        match self._spec.collect:
            case "none":
                return None
            case "count":
                return out.count
            case "last":
                return before[-1] if before and not self._yielded else _decode(self._last)
        if self._whole is None:
            return {"chunks": out.count, "bytes": out.size, "parts": [part.ref for part in out.parts]}
        values = before + [_decode(body) for body in self._whole]
        if self._spec.collect == "list":
            return values
        if wrong := next((value for value in values if not isinstance(value, str)), None):
            message = f"{self._task.node} collects text, and yielded a {type(wrong).__name__}; use collect: list"
            raise Failure("bad_output", message, retryable=False)
        return "".join(map(str, values))

    # -- the pump ------------------------------------------------------------------------------------------------------

    async def _pump(self) -> None:
        while not self._is_closed:
            self._wake.clear()
            try:
                for name, port in self._ports.items():
                    if port.pending:
                        await self._send(name, port)
            except Superseded:
                self.superseded = True
                raise asyncio.CancelledError(f"another attempt of {self._task.node} streams") from None
            if not any(port.pending for port in self._ports.values()):
                self._idle.set()
                await self._look_until_more()

    async def _look_until_more(self) -> None:
        """Wait for the next chunk. Now and then it is looked whether the store still has what it was sent."""
        while True:
            try:
                await asyncio.wait_for(self._wake.wait(), ASK_SECONDS)
            except TimeoutError:
                pass
            else:
                return
            for name, port in self._ports.items():
                if port.sent:
                    await self._append(self._name(name), port)
                    if name in self._spec.read:
                        await self._look_behind(self._name(name), port)

    async def _send(self, name: str, port: Port) -> None:
        if not self._opened:  # nothing is written before the journal has let this execution write
            self._opened = True
            await self._open()
        chunks, port.pending = port.pending, []
        self._streamed.yielded += len(chunks)
        self._streamed.yielded_bytes += sum(map(len, chunks))
        await self._accept(name, port, chunks)
        if name in self._spec.read:
            await self._wait_for_readers(self._name(name), port)

    async def _accept(self, name: str, port: Port, chunks: list[bytes]) -> None:
        """Send chunks to the store, and store what fills a piece."""
        port.unkept += chunks
        port.unkept_size += sum(map(len, chunks))
        port.accepted = port.kept + len(port.unkept)
        await self._append(self._name(name), port)
        if port.unkept_size >= PART_BYTES:
            await self._keep(name, port, report=True)

    async def _append(self, stream: Name, port: Port) -> None:
        while True:
            sent = min(port.sent, port.accepted)
            known = await self._write(stream, sent, port.unkept[sent - port.kept :], port.sent_chain)
            if known > port.accepted:
                if known - 1 == port.accepted:
                    port.sent, port.sent_chain = port.accepted, port.chain
                return
            # The store has lost what it had: it is told again what is kept, and sent the rest.
            await self._ask_again()
            await self._keep_all(stream, port)
            port.sent, port.sent_chain = port.kept, port.kept_chain

    async def _keep_all(self, stream: Name, port: Port) -> None:
        for part in port.parts:
            await self._streams.keep(stream, self._edition, part, port.kept_chain if part is port.parts[-1] else 0)

    async def _write(self, stream: Name, sent: int, bodies: list[bytes], chain: int) -> int:
        return await self._streams.append(stream, self._edition, sent + 1, bodies)

    async def _ask_again(self) -> None:
        """Ask whether this attempt may still write: a store that has lost all fences nobody."""

    async def _keep(self, name: str, port: Port, *, report: bool) -> None:
        """Store a piece. It is named only once it is stored, and held here until then."""
        ref = await self._store(b"[" + b",".join(port.unkept) + b"]")
        part = Part(name, port.accepted, ref, port.unkept_size)
        if report:
            await self._report(Flowed(kept=part, chain=port.chain))
        port.parts.append(part)
        port.kept_chain = port.chain
        port.unkept, port.unkept_size = [], 0
        await self._streams.keep(self._name(name), self._edition, part, port.kept_chain)

    def _name(self, port: str) -> Name:
        task = self._task
        return stream_name(task.run_id, task.node, port, task.tenant, task.incarnation)

    async def _open(self) -> None:
        try:
            await self._report(Flowed(opened=tuple(self._ports)))
        except asyncio.CancelledError:
            self.superseded = True
            raise

    async def _wait_for_readers(self, stream: Name, port: Port) -> None:
        """Wait while the slowest reader is too far behind, unless it does not move: then it may wait for another stream,
        and a producer that waited for it would wait for itself (rule 68)."""
        while True:
            behind = await self._look_behind(stream, port)
            far = behind.size > self._spec.buffer or port.sent - behind.number > MOST_BEHIND
            if not far or behind.number == port.behind_at:
                return
            if not await self._streams.progress(stream, self._edition, behind.number, STALL_SECONDS):
                port.behind_at = behind.number
                self._streamed.stalls += 1
                return

    async def _look_behind(self, stream: Name, port: Port) -> Behind:
        behind = await self._streams.behind(stream, self._edition)
        self._note_unread(port, port.sent - behind.number)
        return behind

    def _note_unread(self, port: Port, unread: int) -> None:
        unread = 0 if self._is_closed else max(0, unread)
        self._streamed.unread += unread - port.unread
        port.unread = unread


class Crossing:
    """Chunks on their way from the thread of a handler to the loop: those that come while the loop is busy go over together."""

    def __init__(self, out: Outflow, loop: asyncio.AbstractEventLoop) -> None:
        self._out = out
        self._loop = loop
        self._lock = threading.Lock()
        self._waiting: list[tuple[str, bytes]] = []

    def put(self, port: str, body: bytes) -> None:
        with self._lock:
            self._waiting.append((port, body))
            is_first = len(self._waiting) == 1
        if is_first:
            self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        with self._lock:
            some, self._waiting = self._waiting, []
        for port, body in some:
            self._out.add(port, body)
