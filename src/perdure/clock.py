"""The only file that reads a clock, sleeps, or makes ids and random numbers.

Everything else takes a `Clock`, so that simulation can replace time and chance. A lint rule bans the modules used
here from every other file.
"""

from __future__ import annotations

import os
import random
import struct
import time
from collections.abc import Iterator
from typing import Protocol


class Clock(Protocol):
    """What a part of Perdure may know of time and chance."""

    def now(self) -> float:
        """Wall-clock time in seconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; for leases and timeouts inside one process."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def random(self) -> float:
        """A number in [0, 1), for jitter and sampling; never for secrets."""
        ...

    def new_id(self) -> str:
        """A new id: time-ordered, unique, 32 hexadecimal digits (UUID version 7 without dashes)."""
        ...


_NOISE = struct.Struct(">QH")
_DRAWN = 100
"""For so many ids the system is asked for random bytes at once: a call of it takes longer than all else of an id."""
_drawn: Iterator[tuple[int, int]] = iter(())


def _draw() -> int:
    """A random number of 80 bits, unpredictable."""
    global _drawn  # noqa: PLW0603
    found = next(_drawn, None)
    while found is None:
        _drawn = _NOISE.iter_unpack(os.urandom(_NOISE.size * _DRAWN))
        found = next(_drawn, None)
    return found[0] << 16 | found[1]


def _forget_drawn() -> None:
    global _drawn  # noqa: PLW0603
    _drawn = iter(())


os.register_at_fork(after_in_child=_forget_drawn)  # or parent and child would make the same ids


class SystemClock:
    def __init__(self) -> None:
        self._random = random.Random(os.urandom(16))

    def now(self) -> float:
        return time.time()

    monotonic = staticmethod(time.monotonic)  # no call of ours around it: it is asked several times for every node

    async def sleep(self, seconds: float) -> None:
        import asyncio  # `perdure --help` needs random bytes and no event loop

        await asyncio.sleep(seconds)

    def random(self) -> float:
        return self._random.random()

    def new_id(self) -> str:
        milliseconds = time.time_ns() // 1_000_000
        noise = _draw()
        value = (milliseconds & 0xFFFFFFFFFFFF) << 80 | 0x7 << 76 | (noise >> 68 & 0xFFF) << 64 | 0b10 << 62
        return f"{value | noise & 0x3FFFFFFFFFFFFFFF:032x}"


class OffsetClock:
    """A clock set by a server's: processes that share a database agree on the time, whatever their machines say. Once it
    is set, it counts by the monotonic clock: a machine whose clock is set ahead or back meanwhile changes nothing."""

    def __init__(self, inner: Clock) -> None:
        self._inner = inner
        self._began: float | None = None
        """The time at moment 0 of the monotonic clock; None until it is set."""
        self.monotonic = inner.monotonic
        self.sleep = inner.sleep
        self.random = inner.random
        self.new_id = inner.new_id

    def now(self) -> float:
        return self._inner.now() if self._began is None else self._began + self._inner.monotonic()

    def set(self, now: float, asked_at: float) -> None:
        """Set the clock: it was `now` at the server some time after `asked_at` by this machine's monotonic clock; half
        of that time is a fair guess. A clock that may be right stays as it is, the machine's too: so it does not go to
        and fro, and the processes of one machine order what they do by one clock."""
        unsure = (self._inner.monotonic() - asked_at) / 2
        began = now - asked_at - unsure
        if self._began is None:
            self._began = self._inner.now() - self._inner.monotonic()
        if abs(began - self._began) > unsure:
            self._began = began


def new_key(size: int) -> bytes:
    """Unpredictable random bytes, for keys and tokens."""
    return os.urandom(size)


def pause(seconds: float) -> None:
    """Block this thread; for programs without an event loop."""
    time.sleep(seconds)


system = SystemClock()
