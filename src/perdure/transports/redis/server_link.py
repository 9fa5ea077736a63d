"""The link to one server: all calls of a process share one connection, which is made again after it was lost.

It owns reconnecting and time-outs. After a failure the next connection is tried at once, then with growing pauses; in a
pause calls fail at once, because callers have patience of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from perdure.clock import Clock
from perdure.transport import TransportUnavailable
from perdure.transports.redis.connection import Connection, ReplyError, connect
from perdure.transports.redis.link import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Link
from perdure.transports.redis.names import Keys
from perdure.transports.redis.server_url import Address

LATE = 0.2
"""The part of the permitted time after which an answer counts as late: then other servers are asked first, where it
does not matter which one answers."""


class ServerLink(Link):
    is_cluster = False

    def __init__(self, address: Address, keys: Keys, clock: Clock, *, seconds: float, name: str) -> None:
        super().__init__(address, keys, clock)
        self._seconds = seconds
        self._name = name
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()
        self._pause = 0.0
        self._not_before = 0.0
        self._why = ""
        self._connected_at = 0.0

    def send(self, *command: str | bytes | float) -> asyncio.Future[Any]:
        assert self._connection is not None
        return self._connection.send(*command)

    def try_to_start(self, name: str, keys: Sequence[str], arguments: Sequence[str | bytes | float]) -> None:
        if self.is_connected:
            self.start(name, keys, arguments)

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and not self._connection.lost.done()

    @property
    def is_lively(self) -> bool:
        """Whether the server is connected, and not late with an answer."""
        connection = self._connection
        return (
            connection is not None and not connection.lost.done() and connection.silent_seconds < self._seconds * LATE
        )

    @property
    def connected_at(self) -> float:
        return self._connected_at

    async def connected(self) -> Connection:
        connection = self._connection
        if connection is not None and not connection.lost.done():
            return connection
        # Connecting failed and another caller tries again: this one need not wait for that.
        if self._pause and self._lock.locked():
            raise TransportUnavailable(f"Redis at {self.address} cannot be reached: {self._why}")
        async with self._lock:
            self.check_open()
            if self._connection is not None and not self._connection.lost.done():
                return self._connection
            if self._clock.monotonic() < self._not_before:
                raise TransportUnavailable(f"Redis at {self.address} cannot be reached: {self._why}")
            try:
                self._connection = await connect(self.address, self._clock, self._seconds, self._name)
            except (OSError, ReplyError) as error:  # TimeoutError is an OSError
                self._pause = min(max(self._pause * 2, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
                self._not_before = self._clock.monotonic() + self._pause * (0.5 + self._clock.random() / 2)
                self._why = str(error) or type(error).__name__
                raise TransportUnavailable(f"Redis at {self.address} cannot be reached: {self._why}") from error
            self._pause = 0.0
            self._connected_at = self._clock.monotonic()
            return self._connection

    async def watch(self) -> None:
        while True:
            await self._clock.sleep(self._seconds / 4)
            self.look()

    def look(self) -> None:
        """End the connection if it has owed an answer for too long."""
        connection = self._connection
        if connection is not None and connection.silent_seconds > self._seconds:
            connection.end(f"no answer for {self._seconds:g} s")

    def doubt(self, why: str) -> None:
        if self._connection is not None:
            self._connection.end(why)

    def next_place(self) -> Address:
        return self.address

    def is_place(self, address: Address) -> bool:
        return True

    async def load(self) -> bool:
        await self.connected()
        sent = [self.send("SCRIPT", "LOAD", script.text) for script in self._scripts.values()]
        replies = [await future for future in sent]
        refused = [reply for reply in replies if isinstance(reply, ReplyError)]
        if refused and str(refused[0]).startswith("NOPERM"):
            return False
        for reply in refused or replies:
            if isinstance(reply, Exception):
                self.fail(reply)
        return True

    def close(self) -> None:
        super().close()
        self.doubt("the transport was closed")
