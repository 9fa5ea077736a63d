"""Connections to the Redis of a trigger: what the server sends has a limit, and its certificate must name the host.

The server is chosen by the author of a trigger. Its address was checked and is dialled as it is, so that the name is told here.
"""

from __future__ import annotations

import asyncio
from typing import Any

from redis._parsers import _AsyncRESP2Parser
from redis.asyncio import Connection, SSLConnection
from redis.exceptions import ConnectionError as RedisConnectionError

from perdure.clock import system

MOST_BYTES = 8 * 1024 * 1024
"""How much a server may send in answer to one command, or to one transaction."""
LEAST_BYTES = 64
"""What a line counts for at least: short ones take much more time and memory than they have bytes."""
_TURN = 1000
"""How many lines are read before others have their turn."""


class AnswerTooLarge(RedisConnectionError):
    """The answer has more bytes than are read. The connection is given up."""


class _Measured:
    """A reader that counts."""

    def __init__(self, reader: asyncio.StreamReader, most: int) -> None:
        self._reader = reader
        self._lines = 0
        self.left = most

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    async def read(self, size: int = -1) -> bytes:
        data = await self._reader.read(size if size >= 0 else self.left + 1)
        self._count(len(data))
        return data

    async def readexactly(self, size: int) -> bytes:
        self._count(size)  # before it is waited for: the reader would keep all that comes until then
        return await self._reader.readexactly(size)

    async def readline(self) -> bytes:
        data = await self._reader.readline()
        self._count(max(len(data), LEAST_BYTES))
        self._lines += 1
        if self._lines % _TURN == 0:
            await system.sleep(0)  # no time passes, but other tasks have their turn
        return data

    def _count(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise AnswerTooLarge("the server sends more than is read in one answer")


class StreamConnection(Connection):
    def __init__(self, *, most: int = MOST_BYTES, **more: Any) -> None:
        # The parser in C makes room for as many items as a server says there will be: two thousand million take 16 GB.
        super().__init__(parser_class=_AsyncRESP2Parser, **more)
        self._most = most

    async def _connect(self) -> None:
        await super()._connect()  # type: ignore[no-untyped-call]
        self._reader: Any = _Measured(self._reader, self._most)

    async def send_packed_command(self, *arguments: Any, **more: Any) -> None:
        if self._reader is not None:
            self._reader.left = self._most
        await super().send_packed_command(*arguments, **more)


class EncryptedStreamConnection(StreamConnection, SSLConnection):
    def __init__(self, *, server_name: str, **more: Any) -> None:
        super().__init__(**more)
        self._server_name = server_name

    def _connection_arguments(self) -> dict[str, Any]:
        return {**super()._connection_arguments(), "server_hostname": self._server_name}
