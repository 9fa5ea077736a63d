"""The link: all calls of a process share one connection, which comes back after it was lost.

It owns reconnecting, time-outs, scripts and what errors mean. Calls that are made in one turn of the loop leave in one
write. After a failure the next connection is tried at once, then with growing pauses; in a pause calls fail at once, because
whoever calls has patience of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, NoReturn

from weft.clock import Clock
from weft.transport import TransportClosed, TransportFull, TransportUnavailable
from weft.transports.redis.address import Address
from weft.transports.redis.connection import Connection, ConnectionLost, ReplyError, connect
from weft.transports.redis.keys import Keys
from weft.transports.redis.scripts import all_scripts

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0
LOADING_TRIES = 20
LOADING_SECONDS = 0.1

_log = logging.getLogger(__name__)

Arguments = list[str | bytes | float]
Call = tuple[str, Sequence[str], Sequence[str | bytes | float]]
"""A script: its name, its keys, its arguments."""


class ScriptMissing(TransportUnavailable):
    """The server has forgotten a script."""


class Link:
    def __init__(self, address: Address, keys: Keys, clock: Clock, *, seconds: float, name: str) -> None:
        self.address = address
        self._keys = keys
        self._clock = clock
        self._seconds = seconds
        self._name = name
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()
        self._pause = 0.0
        self._not_before = 0.0
        self._why = ""
        self.connected_at = 0.0
        """When the present connection was made."""
        self._closed = False
        self._scripts = all_scripts()
        self._load_wanted = asyncio.Event()
        self.is_cluster = True
        """Then a call may name keys of one slot only; so it is until the server says otherwise."""
        self.may_load = True
        """False once the server has said that this user may not load scripts: then somebody else does."""

    # calls

    async def run(self, name: str, keys: Sequence[str], arguments: Sequence[str | bytes | float] = ()) -> Any:
        return (await self.run_all([(name, keys, arguments)]))[0]

    async def run_all(self, calls: Sequence[Call]) -> list[Any]:
        """Scripts, in this order and in one write; one that the server has forgotten is loaded and run again."""
        connection = await self.connected()
        sent = [self.start(connection, *call) for call in calls]
        replies = [await future for future in sent]
        for number, reply in enumerate(replies):
            if isinstance(reply, ReplyError) and _is_missing(reply):
                replies[number] = await self._run_missing(calls[number])
            elif isinstance(reply, Exception):
                self.fail(reply)
        return replies

    async def call_all(self, commands: Sequence[Sequence[str | bytes | float]]) -> list[Any]:
        """Plain commands, in this order and in one write."""
        connection = await self.connected()
        sent = [connection.send(*command) for command in commands]
        replies = [await future for future in sent]
        for reply in replies:
            if isinstance(reply, Exception):
                self.fail(reply)
        return replies

    async def call(self, *command: str | bytes | float) -> Any:
        return (await self.call_all([command]))[0]

    def start(
        self, connection: Connection, name: str, keys: Sequence[str], arguments: Sequence[str | bytes | float]
    ) -> asyncio.Future[Any]:
        """Send it and go on; an error comes as the result, for `fail`."""
        return connection.send("EVALSHA", self._scripts[name].hash, len(keys), *keys, *arguments)

    def try_to_start(self, name: str, keys: Sequence[str], arguments: Sequence[str | bytes | float]) -> None:
        """Send it if that is possible now; nobody waits for the answer."""
        if self._connection is not None and not self._connection.lost.done():
            self.start(self._connection, name, keys, arguments)

    def fail(self, error: Exception) -> NoReturn:
        """What an error of the server, or the loss of a reply, means to whoever called."""
        text = str(error)
        if self._closed:
            raise TransportClosed("the transport was closed") from error
        if isinstance(error, ConnectionLost):
            raise TransportUnavailable(f"Redis at {self.address}: {text}") from error
        if not isinstance(error, ReplyError):
            raise error
        word = text.partition(" ")[0]
        if _is_missing(error):
            raise ScriptMissing(f"Redis at {self.address} has no scripts now; a coordinator loads them") from error
        if word == "OOM":
            raise TransportFull(f"Redis at {self.address} is out of memory: raise maxmemory; {text}") from error
        if word in {"READONLY", "LOADING", "MASTERDOWN"} and self._connection is not None:
            self._connection.end(f"it is no longer the primary: {text}")
        if word in {"NOPERM", "NOAUTH", "WRONGPASS"}:
            raise TransportUnavailable(
                f"Redis at {self.address} refuses: {text}; see docs/operations/redis.md for the rights Weft needs"
            ) from error
        raise TransportUnavailable(f"Redis at {self.address} answered: {text}") from error

    # the connection

    async def connected(self) -> Connection:
        connection = self._connection
        if connection is not None and not connection.lost.done():
            return connection
        async with self._lock:
            if self._closed:
                raise TransportClosed("the transport was closed")
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
            self.connected_at = self._clock.monotonic()
            return self._connection

    async def watch(self) -> None:
        """Ends a connection that owes an answer for too long: whoever waits is told, and the next call connects anew."""
        while True:
            await self._clock.sleep(self._seconds / 4)
            connection = self._connection
            if connection is not None and connection.silent_seconds > self._seconds:
                connection.end(f"no answer for {self._seconds:g} s")

    def close(self) -> None:
        self._closed = True
        if self._connection is not None:
            self._connection.end("the transport was closed")

    # scripts

    async def mend(self, error: Exception) -> None:
        """Load the scripts if that is what is wrong and this user may; else raise what the error means."""
        try:
            self.fail(error)
        except ScriptMissing:
            await self.load_scripts()
            if not self.may_load:
                raise

    async def load_scripts(self) -> None:
        """Where this user may not, somebody who may is asked to."""
        if self.may_load:
            connection = await self.connected()
            sent = [connection.send("SCRIPT", "LOAD", script.text) for script in self._scripts.values()]
            replies = [await future for future in sent]
            refused = [reply for reply in replies if isinstance(reply, ReplyError)]
            if not refused:
                for reply in replies:
                    if isinstance(reply, Exception):
                        self.fail(reply)
                hashes = [text for script in self._scripts.values() for text in (script.name, script.hash)]
                await self.call("HSET", self._keys.scripts, *hashes)
                return
            if not str(refused[0]).startswith("NOPERM"):
                self.fail(refused[0])
            self.may_load = False
        await self.call("PUBLISH", self._keys.wake_scripts, "missing")

    def load_soon(self) -> None:
        """Somebody misses a script."""
        self._load_wanted.set()

    async def load_when_wanted(self) -> None:
        while True:
            await self._load_wanted.wait()
            self._load_wanted.clear()
            try:
                await self.load_scripts()
            except TransportUnavailable as error:
                _log.warning("scripts cannot be loaded now: %s", error)
            await self._clock.sleep(LOADING_SECONDS)

    async def _run_missing(self, call: Call) -> Any:
        for _ in range(LOADING_TRIES):
            await self.load_scripts()
            reply = await self.start(await self.connected(), *call)
            if not isinstance(reply, Exception):
                return reply
            if not (isinstance(reply, ReplyError) and _is_missing(reply)):
                self.fail(reply)
            await self._clock.sleep(LOADING_SECONDS)
        raise TransportUnavailable(
            f"Redis at {self.address} has no script {call[0]!r} and this user may not load it; a coordinator does: is one running?"
        )


def _is_missing(error: ReplyError) -> bool:
    return str(error).startswith("NOSCRIPT")
