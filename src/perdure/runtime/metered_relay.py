"""A connection to a server that the author of a trigger has chosen: what it sends has a limit, whatever the driver would keep of it.

The driver of PostgreSQL has no limit of its own: it keeps a message until all of it has come, and a message may have a gigabyte. So it
connects to this process, and here bytes are counted on their way, encrypted or not. It must not know what they mean.
"""

from __future__ import annotations

import asyncio
from typing import Any

MOST_BYTES = 8 * 1024 * 1024
"""How much a server may send until it is told something more: a page of rows has half of it."""
WORN_BYTES = 64 * 1024 * 1024
"""How much it may send over a connection that is used again: what a driver keeps of settings and notices grows with it."""
_PIECE = 64 * 1024


class MeteredRelay:
    """One connection, from a port of this machine to a server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int) -> None:
        self._far = (reader, writer)
        self._near: asyncio.StreamWriter | None = None
        self._most = most
        self._left = most
        self._server: asyncio.Server | None = None
        self._pumps: tuple[asyncio.Task[None], ...] = ()
        self.total = 0
        self.is_over = False
        """Whether the server has sent more than it may, and was left."""

    @classmethod
    async def open(cls, host: str, port: int, most: int = MOST_BYTES) -> MeteredRelay:
        """Connect to the server, and wait for one caller. Raises OSError."""
        relay = cls(*await asyncio.open_connection(host, port, limit=_PIECE), most)
        try:
            relay._server = await asyncio.start_server(relay._pair, "127.0.0.1", 0, limit=_PIECE, backlog=1)
        except BaseException:
            relay.close()
            raise
        return relay

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in (self._far[1], self._near):
            if writer is not None:
                writer.transport.abort()  # which ends what is being read, and so the pumps

    def _pair(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._near is not None or self._server is None:  # another program of this machine
            writer.transport.abort()
            return
        self._near = writer
        self._server.close()
        loop = asyncio.get_running_loop()
        self._pumps = loop.create_task(self._ask(reader)), loop.create_task(self._answer(writer))

    async def _ask(self, reader: asyncio.StreamReader) -> None:
        try:
            while data := await reader.read(_PIECE):
                self._left = self._most
                self._far[1].write(data)
                await self._far[1].drain()
        except OSError:
            pass  # one of both has gone
        finally:
            self.close()

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await self._far[0].read(_PIECE):
                self._left -= len(data)
                self.total += len(data)
                if self._left < 0:
                    self.is_over = True
                    return
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            self.close()


class RelayedConnection:
    """A connection of a driver, which ends together with its relay."""

    def __init__(self, connection: Any, relay: MeteredRelay) -> None:
        self._connection = connection
        self._relay = relay

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    @property
    def is_worn(self) -> bool:
        return self._relay.total > WORN_BYTES

    def terminate(self) -> None:
        self._connection.terminate()
        self._relay.close()
