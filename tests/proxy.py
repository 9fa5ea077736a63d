"""A network that misbehaves on command: a TCP proxy in front of a server, in a thread of its own.

It can be slow, cut connections, refuse new ones, and go silent while connections stay open (half-open, as after a cable was
pulled). Everything may be called from any thread and has happened when the call returns.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any

CHUNK = 65_536


class Proxy:
    """`with Proxy(("127.0.0.1", 5432)) as proxy:` or `Proxy("/path/of/a/socket")`; connect to `proxy.host`, `proxy.port`."""

    host = "127.0.0.1"

    def __init__(self, target: tuple[str, int] | Path | str) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._delay_seconds = 0.0
        self._cut_after: int | None = None
        self._cut_at = b""
        self._cuts_request = False
        self.port = 0
        self.connections = 0
        """How many were ever made."""

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # what may go wrong

    def cut(self) -> None:
        """Reset every connection; new ones may come."""
        self._do(self._cut())

    def cut_after(self, size: int) -> None:
        """Pass on so many bytes of what the server sends, in all, then cut once: an answer gets lost, half-way or as a whole."""

        async def plan() -> None:
            self._cut_after = size

        self._do(plan())

    def cut_at_request(self) -> None:
        """Cut once, when the next request comes; the server never sees it."""

        async def plan() -> None:
            self._cuts_request = True

        self._do(plan())

    def cut_at(self, text: bytes) -> None:
        """Cut once, when the server sends this: what stands before it arrives, the rest does not."""

        async def plan() -> None:
            self._cut_at = text

        self._do(plan())

    def go_silent(self) -> None:
        """Connections stay open, also new ones, and nothing passes in either direction."""
        self._do(self._set(False))

    def refuse(self) -> None:
        """Nobody listens any more; connections that exist stay."""
        self._do(self._unlisten())

    def slow_down(self, seconds: float) -> None:
        """Everything passes so much later, in each direction."""

        async def set_delay() -> None:
            self._delay_seconds = seconds

        self._do(set_delay())

    def heal(self) -> None:
        """As if nothing had been; bytes held back by a silence pass now."""
        self._delay_seconds = 0.0
        self._do(self._set(True))
        self._do(self._listen())

    # inside

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, self.host, self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def _unlisten(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()

    async def _set(self, flowing: bool) -> None:
        (self._flowing.set if flowing else self._flowing.clear)()

    async def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _close(self) -> None:
        await self._unlisten()
        await self._cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        other: asyncio.StreamWriter | None = None
        try:
            if isinstance(self._target, tuple):
                answers, other = await asyncio.open_connection(*self._target)
            else:
                answers, other = await asyncio.open_unix_connection(str(self._target))
            self._writers.add(other)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(reader, other, False))
                group.create_task(self._pass(answers, writer, True))
        except* (OSError, asyncio.CancelledError):
            pass
        finally:
            for end in (writer, other):
                if end is not None:
                    self._writers.discard(end)
                    end.transport.abort()
            self._tasks.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_answer: bool) -> None:
        while data := await reader.read(CHUNK):
            if self._delay_seconds:
                await asyncio.sleep(self._delay_seconds)
            await self._flowing.wait()
            if self._cuts_request and not is_answer:
                self._cuts_request = False
                await self._cut()
                return
            passing = self._shorten(data) if is_answer else data
            writer.write(passing)
            await writer.drain()
            if passing is not data:
                await self._cut()
                return
        raise ConnectionResetError("one end closed")

    def _shorten(self, data: bytes) -> bytes:
        """What still passes; all of it, as the same object, if nothing is to be cut."""
        if self._cut_at and self._cut_at in data:
            end, self._cut_at = data.index(self._cut_at), b""
            return bytes(bytearray(data[:end]))
        if self._cut_after is not None:
            left, self._cut_after = self._cut_after, self._cut_after - len(data)
            if self._cut_after <= 0:
                self._cut_after = None
                return bytes(bytearray(data[:left]))
        return data
