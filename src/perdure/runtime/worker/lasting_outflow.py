"""Outflows of nodes that can go on with what an attempt before them has yielded (rule 63): by repeating it, or from a checkpoint.

`Repeating` yields all of it again: what is known is dropped by its number, and compared by what the chunks came to. `Covered` shows
nothing before a checkpoint covers it, so its next attempt goes on behind that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from perdure.kernel.values import Part
from perdure.outcomes import Failure
from perdure.runtime.worker import outflow
from perdure.runtime.worker.outflow import LARGEST_LIST, Outflow, Port
from perdure.runtime.worker.streamed import Streamed
from perdure.secrets.scrubber import Scrubber
from perdure.streams import Flowed, Name, Outgoing, Streams, link
from perdure.transport import Task


class Repeating(Outflow):
    """What a handler yields that repeats itself."""

    _checks: dict[str, dict[int, int]]

    async def _open(self) -> None:
        await super()._open()
        await self._go_on()

    async def _go_on(self) -> None:
        """Learn what there is of the edition, and what it came to."""
        self._checks = {}
        for name, port in self._ports.items():
            stream, port.parts = self._name(name), [part for part in self._spec.parts if part.port == name]
            checks = self._checks[name] = {number: chain for out, number, chain in self._spec.checks if out == name}
            port.kept_chain = checks.get(port.kept, 0)
            known, chain = await self._streams.claim(stream, self._edition, self._task.attempt)
            if known <= port.kept:
                await self._keep_all(stream, port)
                known, chain = port.kept + 1, port.kept_chain
            if known > 1:
                checks[known - 1] = chain
            port.sent, port.sent_chain = known - 1, chain

    async def _accept(self, name: str, port: Port, chunks: list[bytes]) -> None:
        checks, start = self._checks[name], port.accepted
        for body in chunks:
            port.accepted += 1
            port.chain = link(port.chain, (body,))
            if checks.pop(port.accepted, port.chain) != port.chain:
                raise self._diverged(f"one of the first {port.accepted:,} chunks of {name} is another one than before")
        new = chunks[max(0, port.kept - start) :]  # what is stored is not stored again
        port.unkept += new
        port.unkept_size += sum(map(len, new))
        if port.accepted > port.sent:
            await self._append(self._name(name), port)
        if port.unkept_size >= outflow.PART_BYTES:
            await self._keep(name, port, report=True)

    async def _write(self, stream: Name, sent: int, bodies: list[bytes], chain: int) -> int:
        attempt = self._task.attempt
        return await self._streams.append(stream, self._edition, sent + 1, bodies, attempt=attempt, chain=chain)

    async def _ask_again(self) -> None:
        await Outflow._open(self)

    async def end(self) -> tuple[Any, Flowed]:
        await self.end_texts()
        if self._spec.edition and not self._opened:
            self._opened = True
            await self._open()
        for name, checks in self._checks.items() if self._opened else ():
            if checks:
                accepted = self._ports[name].accepted
                raise self._diverged(f"{name} has ended after {accepted:,} chunks, and had {max(checks):,} before")
        return await super().end()

    def refuse_checkpoint(self) -> None:
        message = (
            f"{self._task.node} says restart: repeat, and begins from the beginning; to go on from a checkpoint, "
            "say restart: checkpoint"
        )
        raise Failure("bad_checkpoint", message, retryable=False)

    def _diverged(self, why: str) -> Failure:
        message = f"{self._task.node} says restart: repeat, and does not repeat itself: {why}"
        return Failure("stream_diverged", message)


class _Covering(Port):
    """A port of which readers see what a checkpoint covers."""

    __slots__ = ("shown", "shown_size", "small", "uncovered")

    def __init__(self) -> None:
        super().__init__()
        self.small: list[tuple[int, list[bytes], int]] = []
        """The last pieces, if they are small: the number each begins behind, its chunks, its bytes. They are put together."""
        self.uncovered: list[tuple[int, Part]] = []
        """Pieces that are stored, and that no checkpoint covers yet."""
        self.shown = 0
        """How many pieces readers may see."""
        self.shown_size = 0


class Covered(Outflow):
    """What a handler yields that goes on from its checkpoints."""

    _ports: dict[str, _Covering]  # type: ignore[assignment]

    def __init__(
        self,
        streams: Streams,
        task: Task,
        spec: Outgoing,
        *,
        report: Callable[[Flowed], Awaitable[None]],
        store: Callable[[bytes], Awaitable[str]],
        load: Callable[[str], Awaitable[Any]],
        streamed: Streamed,
        scrubber: Scrubber | None = None,
    ) -> None:
        super().__init__(streams, task, spec, report=report, store=store, streamed=streamed, scrubber=scrubber)
        self._load = load
        self._covering = 0
        self._ports = {name: _Covering() for name in self._ports}
        for name, port in self._ports.items():
            port.parts = [part for part in spec.parts if part.port == name]
            port.count = port.accepted = port.kept
            port.size = sum(part.size for part in port.parts)
            port.shown = len(port.parts)
        if self._ports["out"].size > LARGEST_LIST:
            self._whole = None

    async def _open(self) -> None:
        await super()._open()
        for name, port in self._ports.items():
            if port.parts:
                await self._show(name, port)

    async def _accept(self, name: str, port: Port, chunks: list[bytes]) -> None:
        port.unkept += chunks
        port.unkept_size += sum(map(len, chunks))
        port.accepted += len(chunks)
        # A checkpoint on its way covers what was yielded before it, and no more.
        if port.unkept_size >= outflow.PART_BYTES and not self._covering:
            assert isinstance(port, _Covering)
            await self._put(name, port, len(port.unkept))

    async def _append(self, stream: Name, port: Port) -> None:
        name = next(name for name, one in self._ports.items() if one is port)
        assert isinstance(port, _Covering)
        await self._show(name, port)

    def cut(self) -> dict[str, int]:
        """How much has been yielded: what a checkpoint covers that is made now. `cover` follows."""
        self._covering += 1
        self.let_go()
        return {name: port.count for name, port in self._ports.items()}

    async def cover(
        self, upto: dict[str, int], save: Callable[[tuple[tuple[int, Part], ...]], asyncio.Future[None]]
    ) -> None:
        """Store what was yielded until then, and show it to readers once it is kept with the checkpoint."""
        try:
            await self.settle()
            for name, port in self._ports.items():
                if (count := upto[name] - port.kept) > 0:
                    await self._put(name, port, count, is_small=True)
            await save(tuple(one for port in self._ports.values() for one in port.uncovered))
            for name, port in self._ports.items():
                if port.uncovered:
                    port.uncovered, port.shown = [], len(port.parts)
                    await self._show(name, port)
        finally:
            self._covering -= 1

    async def _put(self, name: str, port: _Covering, count: int, *, is_small: bool = False) -> None:
        """Store a piece. One that is small takes those before it in that are no larger, so that there are few."""
        bodies, after = port.unkept[:count], port.kept
        size = new = sum(map(len, bodies))
        while is_small and port.small and port.small[-1][2] <= size < outflow.PART_BYTES and not port.uncovered:
            after, before, more = port.small.pop()
            bodies, size = before + bodies, size + more
            port.parts.pop()
            port.shown -= 1
        part = Part(name, after + len(bodies), await self._store(b"[" + b",".join(bodies) + b"]"), size)
        port.parts.append(part)
        port.uncovered.append((after, part))
        if is_small and size < outflow.PART_BYTES:
            port.small.append((after, bodies, size))
        else:
            port.small = []
        del port.unkept[:count]
        port.unkept_size -= new

    async def _show(self, name: str, port: _Covering) -> None:
        """Tell the store which pieces may be seen; all, if it has lost them."""
        stream = self._name(name)
        known, _ = await self._streams.claim(stream, self._edition, self._task.attempt)
        if known == 1:
            port.shown_size = 0
        size = 0
        for part in port.parts[: port.shown]:
            size += part.size
            if part.upto >= known:
                new = Part(part.port, part.upto, part.ref, size - port.shown_size)
                await self._streams.keep(stream, self._edition, new)
                port.shown_size = size
        port.sent = port.parts[port.shown - 1].upto if port.shown else 0

    async def end(self) -> tuple[Any, Flowed]:
        await self.end_texts()
        for name, port in self._ports.items():
            if port.unkept:
                await self._put(name, port, len(port.unkept))
        return await super().end()

    async def _load_before(self) -> list[Any]:
        found: list[Any] = []
        collect = self._spec.collect
        parts = [part for part in self._spec.parts if part.port == "out"]
        if collect in ("none", "count") or (collect != "last" and self._whole is None):
            return found
        for part in parts[-1:] if collect == "last" else parts:
            found += await self._load(part.ref)
        return found


def make_outflow(
    streams: Streams,
    task: Task,
    spec: Outgoing,
    *,
    report: Callable[[Flowed], Awaitable[None]],
    store: Callable[[bytes], Awaitable[str]],
    load: Callable[[str], Awaitable[Any]],
    streamed: Streamed,
    scrubber: Scrubber | None = None,
) -> Outflow:
    """The outflow of an attempt, by what its node says of `restart`."""
    if spec.restart == "checkpoint":
        return Covered(streams, task, spec, report=report, store=store, load=load, streamed=streamed, scrubber=scrubber)
    kind = Repeating if spec.restart == "repeat" else Outflow
    return kind(streams, task, spec, report=report, store=store, streamed=streamed, scrubber=scrubber)
