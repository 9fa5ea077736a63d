"""One connection to Redis: commands go out in batches, one per turn of the loop, and replies come back in order.

It owns bytes, order and the time of the last sign of life. It must not know what a command means, and it never
reconnects: a connection that is lost stays lost, and says so to every caller that waits.

An error reply and the loss of a reply are results, not exceptions: the caller may no longer be there to see them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import hiredis

from perdure.clock import Clock
from perdure.transports.redis.server_url import Address

ReplyError = hiredis.ReplyError
_NOTHING = object()


class ConnectionLost(Exception):
    """No reply will come; whether the command was executed is not known."""


class Connection(asyncio.Protocol):
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._on_push: Callable[[Any], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader(notEnoughData=_NOTHING)
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._out: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self.lost: asyncio.Future[str] = self._loop.create_future()
        """Done when the connection is over; the result says why."""
        self.heard_at = clock.monotonic()
        """When the server last sent something, or owed no answer."""

    def send(self, *command: str | bytes | float) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        if self.lost.done():
            future.set_result(ConnectionLost(self.lost.result()))
            return future
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(hiredis.pack_command(command))  # type: ignore[arg-type]
        if self._on_push is None:
            if not self._waiting:
                self.heard_at = self._clock.monotonic()
            self._waiting.append(future)
        return future

    def listen(self, on_push: Callable[[Any], None]) -> None:
        """Pass everything that arrives to `on_push` from now on; as in a subscription, no command has its own reply."""
        self._on_push = on_push
        self.heard_at = self._clock.monotonic()

    @property
    def silent_seconds(self) -> float:
        """How long the server has owed an answer."""
        return self._clock.monotonic() - self.heard_at if self._waiting or self._on_push is not None else 0.0

    def end(self, why: str) -> None:
        if not self.lost.done():
            self.lost.set_result(why)
        if self._transport is not None:
            self._transport.abort()
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(ConnectionLost(why))

    # what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.heard_at = self._clock.monotonic()
        reader = self._reader
        try:
            reader.feed(data)
            while (reply := reader.gets()) is not _NOTHING:
                if self._on_push is not None:
                    self._on_push(reply)
                else:
                    future = self._waiting.popleft()
                    if not future.done():
                        future.set_result(reply)
        except (hiredis.ProtocolError, IndexError) as error:
            self.end(f"what came back is not Redis: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        self.end(str(error) if error is not None else "the server closed the connection")

    def _flush(self) -> None:
        if self._transport is not None and not self.lost.done():
            self._transport.write(self._out[0] if len(self._out) == 1 else b"".join(self._out))
        self._out.clear()


async def connect(address: Address, clock: Clock, seconds: float, name: str) -> Connection:
    """A connection on which the server has let us in. Raises OSError, TimeoutError or ReplyError."""
    loop = asyncio.get_running_loop()
    connection: Connection | None = None
    try:
        async with asyncio.timeout(seconds):
            if address.path:
                _, connection = await loop.create_unix_connection(lambda: Connection(clock), address.path)
            else:
                _, connection = await loop.create_connection(
                    lambda: Connection(clock), address.host, address.port, ssl=address.tls_context()
                )
            for command in _greeting(address, name):
                reply = await connection.send(*command)
                if isinstance(reply, ConnectionLost):
                    raise ConnectionResetError(str(reply))
                if isinstance(reply, ReplyError):
                    raise reply
        return connection
    except BaseException:
        if connection is not None:
            connection.end("given up while connecting")
        raise


def _greeting(address: Address, name: str) -> list[tuple[str | int, ...]]:
    commands: list[tuple[str | int, ...]] = []
    if address.password:
        user = (address.username,) if address.username else ()
        commands.append(("AUTH", *user, address.password))
    commands.append(("CLIENT", "SETNAME", name))
    if address.database:
        commands.append(("SELECT", address.database))
    return commands
