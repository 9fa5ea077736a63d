"""A TCP proxy before a server, with a network's faults: it can swallow what passes, and cut."""

from __future__ import annotations

import asyncio
from typing import Literal

Mode = Literal["pass", "cut answers", "cut requests", "swallow"]


class Proxy:
    """`cut answers`: the next request reaches the server, its answer is lost with the connection. `cut requests`: not even
    that. `swallow`: nothing passes and nobody is told."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.mode: Mode = "pass"
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self._cut()
        await self._server.wait_closed()

    def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers |= {writer, to_writer}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, to_writer, "cut requests"))
                group.create_task(self._pump(to_reader, writer, "cut answers"))
        finally:
            for each in (writer, to_writer):
                each.transport.abort()
                self._writers.discard(each)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cutting: Mode) -> None:
        try:
            while data := await reader.read(65536):
                if self.mode == cutting:
                    self._cut()
                    return
                if self.mode != "swallow":
                    writer.write(data)
                    await writer.drain()
        except (ConnectionError, OSError):
            pass
        writer.transport.abort()
