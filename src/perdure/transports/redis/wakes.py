"""Wake-ups: one subscription per process tells every waiting caller that it is worth looking.

It owns the subscribed connection and which callers wait for which channel. A wake-up may get lost; therefore every
waiting caller also looks now and then, and all of them are woken when the subscription begins, or begins again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from perdure.clock import Clock
from perdure.transports.envelopes import EnvelopeRefused
from perdure.transports.redis.connection import Connection, ReplyError, connect
from perdure.transports.redis.link import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Link
from perdure.transports.redis.reader import shown, text_of

LONGEST_SAID = 1_000_000
"""The longest wake-up, in characters; those of Perdure name some partitions, or some commands."""
POLL_SECONDS = 2.0
"""How often a waiting caller looks without being woken."""

_log = logging.getLogger(__name__)

Handler = Callable[[str], None]


class Ticket:
    """A waiting caller. It must `clear`, look, then `wait`, so that nothing said in between is missed."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def clear(self) -> None:
        self._event.clear()

    def wake(self, said: str = "") -> None:
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        """True when woken, False when the time is up."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        return True


class Wakes:
    def __init__(self, link: Link, clock: Clock, *, seconds: float, name: str) -> None:
        self._link = link
        self._address = link.address
        """The server of the present subscription; in a cluster any will do, and after a failure it is the next one."""
        self._clock = clock
        self._seconds = seconds
        self._name = name
        self._handlers: dict[str, list[Handler]] = {}
        """Handlers by channel. A channel without handlers stays subscribed, because a caller will wait for it again."""
        self._connection: Connection | None = None
        self.heard: set[str] = set()
        """Channels the server has confirmed."""
        self.connections = 0
        """How often the subscription has begun."""
        self.refused = 0
        """How many wake-ups no listener could read."""
        self._said: dict[str, int] = {}
        """How often each channel has said something."""

    def on(self, channels: Iterable[str], handler: Handler) -> Callable[[], None]:
        """Call `handler` with what these channels say, and once when subscribed. Returns a function that ends it."""
        channels = tuple(channels)
        new = [channel for channel in channels if channel not in self._handlers]
        for channel in channels:
            self._handlers.setdefault(channel, []).append(handler)
        if new and self._connection is not None:
            self._connection.send("SUBSCRIBE", *new)

        def end() -> None:
            for channel in channels:
                if handler in self._handlers.get(channel, ()):
                    self._handlers[channel].remove(handler)

        return end

    def count_said(self, channels: Iterable[str]) -> int | None:
        """How often these channels have said something: the same number twice means that nothing was said in between.
        None: not all of them are heard now."""
        channels = tuple(channels)
        return sum(self._said.get(one, 0) for one in channels) if self.heard.issuperset(channels) else None

    def leave_idle(self, channel: str) -> None:
        """Like `leave`, unless a caller waits there now."""
        if not self._handlers.get(channel):
            self.leave([channel])

    def leave(self, channels: Iterable[str]) -> None:
        """Unsubscribe from these channels: no caller here will wait for them any more."""
        gone = [channel for channel in channels if self._handlers.pop(channel, None) is not None]
        self.heard.difference_update(gone)
        for channel in gone:
            self._said.pop(channel, None)
        if gone and self._connection is not None:
            self._connection.send("UNSUBSCRIBE", *gone)

    def wake_all(self) -> None:
        for channel in list(self._handlers):
            self._tell(channel, "")

    async def run(self) -> None:
        """Stay subscribed, whatever happens to the connection."""
        pause = 0.0
        failing = False
        while True:
            self._address = self._link.next_place()
            try:
                connection = await connect(self._address, self._clock, self._seconds, self._name)
            except (OSError, ReplyError) as error:
                if not failing:
                    _log.warning(
                        "Redis at %s sends no wake-ups now, so that work is found by looking, a moment later: %r",
                        self._address,
                        error,
                    )
                failing = True
                pause = min(max(pause * 2, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
                await self._clock.sleep(pause * (0.5 + self._clock.random() / 2))
                continue
            pause, failing = 0.0, False
            try:
                await self._listen(connection)
            finally:
                self._connection = None
                self.heard.clear()
                connection.end("the subscription ended")

    async def _listen(self, connection: Connection) -> None:
        connection.listen(self._heard)
        self._connection = connection
        self.connections += 1
        if self._handlers:
            connection.send("SUBSCRIBE", *self._handlers)
        while not connection.lost.done():
            connection.send("PING")  # so that the silence of a half-open connection is noticed
            await asyncio.wait([connection.lost], timeout=self._seconds / 4)
            if connection.silent_seconds > self._seconds:
                connection.end(f"no answer for {self._seconds:g} s")
            elif not self._link.is_place(self._address):
                connection.end("the server has left the cluster")
        _log.info("Redis at %s: the subscription was lost: %s", self._address, connection.lost.result())

    def _heard(self, reply: Any) -> None:
        if isinstance(reply, ReplyError):
            _log.warning("Redis at %s refuses a wake-up: %s", self._address, reply)
        elif isinstance(reply, list) and len(reply) == 3 and reply[0] in {b"message", b"subscribe"}:
            try:
                channel, said = text_of(reply[1]), ""
                if reply[0] == b"message":
                    said = text_of(reply[2][: LONGEST_SAID + 1])
                    if len(said) > LONGEST_SAID:
                        raise EnvelopeRefused(f"more than {LONGEST_SAID} characters")
                else:
                    self.heard.add(channel)
            except EnvelopeRefused as error:
                self._refuse(shown(reply[1]), error)
            else:
                self._tell(channel, said)

    def _tell(self, channel: str, said: str) -> None:
        """Pass on what was said. Any client may say something: what a listener cannot read harms nothing else."""
        if channel in self._handlers:
            self._said[channel] = self._said.get(channel, 0) + 1
        for handler in tuple(self._handlers.get(channel, ())):
            try:
                handler(said)
            except (EnvelopeRefused, ValueError) as error:
                self._refuse(channel, error)

    def _refuse(self, channel: str, error: Exception) -> None:
        """Count and log a wake-up that could not be read. Nothing depends on it: waiting callers look by themselves."""
        self.refused += 1
        if self.refused & (self.refused - 1) == 0:  # the 1st, 2nd, 4th, 8th …: any client can send a million
            _log.warning(
                "refused: a wake-up on channel %s that cannot be read: %r; %d so far", channel, error, self.refused
            )
