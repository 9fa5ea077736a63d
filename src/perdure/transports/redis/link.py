"""The link: what every duty of the transport calls, whether one server is behind it or a cluster.

It owns scripts and what errors mean. `ServerLink` (one server) and `ClusterLink` (one of those per master) say how a
command gets there. Calls made in one turn of the loop leave in one write per server.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

from perdure.clock import Clock
from perdure.transport import TransportClosed, TransportFull, TransportUnavailable
from perdure.transports.redis.connection import ConnectionLost, ReplyError
from perdure.transports.redis.names import Keys, probe
from perdure.transports.redis.scripts import all_scripts
from perdure.transports.redis.server_url import Address

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0
LOADING_TRIES = 20
LOADING_SECONDS = 0.1

_log = logging.getLogger(__name__)

Arguments = list[str | bytes | float]
Call = tuple[str, Sequence[str], Sequence[str | bytes | float]]
"""A call of a script: its name, its keys, its arguments."""


class ScriptMissing(TransportUnavailable):
    """The server has forgotten a script."""


class Link(ABC):
    is_cluster: ClassVar[bool]
    """Whether a cluster is behind the link; then a call may name keys of one slot only."""

    def __init__(self, address: Address, keys: Keys, clock: Clock) -> None:
        self.address = address
        self._keys = keys
        self._clock = clock
        self._closed = False
        self._scripts = all_scripts()
        self._load_wanted = asyncio.Event()
        self.may_load = True
        """False once the server has said that this user may not load scripts: then another process does."""

    # how a command gets there

    @abstractmethod
    async def connected(self) -> Any:
        """Return when `send` and `start` can be called, in the same turn; otherwise raise `TransportUnavailable`."""

    @abstractmethod
    def send(self, *command: str | bytes | float) -> asyncio.Future[Any]:
        """Send a command without waiting. An error comes as the result of the future, for `fail`."""

    def start(self, name: str, keys: Sequence[str], arguments: Sequence[str | bytes | float]) -> asyncio.Future[Any]:
        """Like `send`, for a script."""
        return self.send("EVALSHA", self._scripts[name].hash, len(keys), *keys, *arguments)

    @abstractmethod
    def try_to_start(self, name: str, keys: Sequence[str], arguments: Sequence[str | bytes | float]) -> None:
        """Send a script if that is possible now, without waiting for the answer."""

    @property
    @abstractmethod
    def connected_at(self) -> float:
        """When the newest of the present connections was made."""

    @abstractmethod
    async def watch(self) -> None:
        """End connections that owe an answer for too long: their callers are told, and the next call connects anew."""

    def close(self) -> None:
        """Close the link: every caller that waits for an answer is told, and every later call is refused."""
        self._closed = True

    @property
    def closed(self) -> bool:
        return self._closed

    def check_open(self) -> None:
        if self._closed:
            raise TransportClosed("the transport was closed")

    # where to subscribe

    @abstractmethod
    def next_place(self) -> Address:
        """The server to subscribe to, the next time a subscription is made."""

    @abstractmethod
    def is_place(self, address: Address) -> bool:
        """Whether a subscription at this server still hears what is published."""

    # calls

    async def run(self, name: str, keys: Sequence[str], arguments: Sequence[str | bytes | float] = ()) -> Any:
        return (await self.run_all([(name, keys, arguments)]))[0]

    async def run_all(self, calls: Sequence[Call]) -> list[Any]:
        """Run scripts, in this order and in one write; one that the server has forgotten is loaded and run again."""
        await self.connected()
        sent = [self.start(*call) for call in calls]
        replies = [await future for future in sent]
        for number, reply in enumerate(replies):
            if isinstance(reply, ReplyError) and is_missing(reply):
                replies[number] = await self._run_missing(calls[number])
            elif is_wrong_type(reply) and await self._clear(calls[number][1]):
                replies[number] = await self.run(*calls[number])
            elif isinstance(reply, Exception):
                self.fail(reply)
        return replies

    async def run_both(self, first: Sequence[Call], second: Sequence[Call]) -> None:
        """Run both groups. The second may have happened only if the first has."""
        await self.run_all([*first, *second])

    async def call_all(self, commands: Sequence[Sequence[str | bytes | float]]) -> list[Any]:
        """Give plain commands, in this order and in one write."""
        await self.connected()
        sent = [self.send(*command) for command in commands]
        replies = [await future for future in sent]
        for number, reply in enumerate(replies):
            if is_wrong_type(reply) and await self._clear([str(commands[number][1])]):
                replies[number] = await self.call(*commands[number])
            elif is_used_up(reply):
                await self._begin_anew(str(commands[number][1]))
                replies[number] = await self.call(*commands[number])
            elif isinstance(reply, Exception):
                self.fail(reply)
        return replies

    async def _begin_anew(self, stream: str) -> None:
        _log.warning("refused: another client has used the last id of the stream %s; it was deleted", stream)
        await self.call("DEL", stream)

    async def _clear(self, keys: Sequence[str]) -> bool:
        """Delete those keys that have another type than Perdure gives them; returns whether there were any. Whatever
        Redis loses is sent again, but a key of a wrong type would stop all work for ever."""
        await self.connected()
        probes = [self.send(*probe(key)) for key in keys]
        wrong = [key for key, sent in zip(keys, probes, strict=True) if is_wrong_type(await sent)]
        for key in wrong:
            _log.warning("refused: the key %s has another type than Perdure gives it; it was deleted", key)
            await self.call("DEL", key)
        return bool(wrong)

    async def call(self, *command: str | bytes | float) -> Any:
        return (await self.call_all([command]))[0]

    async def call_everywhere(self, *command: str | bytes | float) -> dict[Address, Any]:
        """The answers of every server that keeps data."""
        return {self.address: await self.call(*command)}

    def fail(self, error: Exception) -> NoReturn:
        """Raise what an error of the server, or the loss of a reply, means to the caller."""
        text = str(error)
        if self._closed:
            raise TransportClosed("the transport was closed") from error
        if isinstance(error, ConnectionLost):
            raise TransportUnavailable(f"Redis at {self.address}: {text}") from error
        if not isinstance(error, ReplyError):
            raise error
        word = text.partition(" ")[0]
        if is_missing(error):
            raise ScriptMissing(f"Redis at {self.address} has no scripts now; a coordinator loads them") from error
        if word == "OOM":
            raise TransportFull(f"Redis at {self.address} is out of memory: raise maxmemory; {text}") from error
        if word in {"READONLY", "LOADING", "MASTERDOWN"}:
            self.doubt(f"it is no longer the primary: {text}")
        if word in {"NOPERM", "NOAUTH", "WRONGPASS"}:
            raise TransportUnavailable(
                f"Redis at {self.address} refuses: {text}; see docs/operations/redis.md for the rights Perdure needs"
            ) from error
        raise TransportUnavailable(f"Redis at {self.address} answered: {text}") from error

    @abstractmethod
    def doubt(self, why: str) -> None:
        """Note that the server should be looked for anew."""

    # scripts

    async def mend(self, error: Exception, keys: Sequence[str] = ()) -> None:
        """Load the scripts if they are what is missing and this user may; otherwise raise what the error means."""
        if is_wrong_type(error) and await self._clear(keys):
            return
        try:
            self.fail(error)
        except ScriptMissing:
            await self.load_scripts()
            if not self.may_load:
                raise

    async def load_scripts(self) -> None:
        """Load the scripts. Where this user may not, a process that may is asked to."""
        if self.may_load and await self.load():
            hashes = [text for script in self._scripts.values() for text in (script.name, script.hash)]
            await self.call("HSET", self._keys.scripts, *hashes)
            return
        self.may_load = False
        await self.call("PUBLISH", self._keys.wake_scripts, "missing")

    @abstractmethod
    async def load(self) -> bool:
        """Load the scripts on the server; False if this user may not."""

    def load_soon(self) -> None:
        """Load the scripts soon: a process misses one."""
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
            await self.connected()
            reply = await self.start(*call)
            if not isinstance(reply, Exception):
                return reply
            if not (isinstance(reply, ReplyError) and is_missing(reply)):
                self.fail(reply)
            await self._clock.sleep(LOADING_SECONDS)
        raise TransportUnavailable(
            f"Redis at {self.address} has no script {call[0]!r} and this user may not load it; a coordinator does: is one running?"
        )


def is_wrong_type(reply: Any) -> bool:
    """Whether a command, or one inside a script, met a key of another type. The heart's client leaves the word
    WRONGTYPE out where it has a class for it."""
    return isinstance(reply, Exception) and ("WRONGTYPE" in str(reply) or "wrong kind of value" in str(reply))


def is_used_up(reply: Any) -> bool:
    """Whether a stream takes no more entries, because another client gave one the last possible id."""
    return isinstance(reply, Exception) and "exhausted the last possible ID" in str(reply)


def is_missing(error: ReplyError) -> bool:
    return str(error).startswith("NOSCRIPT")
