"""How long anything holds the loop, in processor time of its thread: another program on the machine does not count.

It counts a little nevertheless, since programs share caches and cores. So the limit grows with what a fixed piece of work takes
right before and after, up to twofold; and a test that was over it is measured again (`conftest.py`), twice: the shortest counts.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_SECONDS = 0.1
MOST_GROWTH = 2.0
MEASUREMENTS = 3


class HeldTooLong(AssertionError):
    """A measurement was over its limit."""


class Yardstick:
    """A fixed piece of work, and what it takes when nothing disturbs it."""

    def __init__(self, pieces: int = 40) -> None:
        self.nominal = min(self.measure() for _ in range(pieces))

    @staticmethod
    def measure() -> float:
        """Seconds of processor time that the piece takes now: about two thousandths."""
        begun = time.thread_time()
        found: dict[int, list[int]] = {}
        for number in range(8_000):
            found.setdefault(number % 97, []).append(number)
        return time.thread_time() - begun

    def growth(self) -> float:
        """How many times as long it takes now: the middle one of five counts. At least 1, at most `MOST_GROWTH`."""
        taken = sorted(self.measure() for _ in range(5))
        self.nominal = min(self.nominal, taken[0])
        return min(max(taken[2] / self.nominal, 1.0), MOST_GROWTH)


_yardsticks: list[Yardstick] = []


def growth() -> float:
    if not _yardsticks:
        _yardsticks.append(Yardstick())
    return _yardsticks[0].growth()


class Watchdog:
    def __init__(self) -> None:
        self.longest = 0.0
        self.what = ""


def judge(seconds: float, limit: float, what: str, before: float = 1.0) -> None:
    """Fails when a measurement is over its limit, grown by what the machine is busy with; `before` is what it was then."""
    grown = limit if seconds < limit else limit * max(before, growth())
    if seconds >= grown:
        raise HeldTooLong(f"{seconds:.3f} s of {grown:.3f} s (without a neighbour {limit:.3f} s): {what}")


@contextmanager
def taking_at_most(limit: float = LONGEST_SECONDS) -> Iterator[None]:
    """Measures a block of code that does not wait, and fails when it took too long."""
    before = growth()
    begun = time.thread_time()
    yield
    judge(time.thread_time() - begun, limit, "the block", before)


@contextmanager
def watching(limit: float = LONGEST_SECONDS) -> Iterator[Watchdog]:
    """Measures every turn of the loops of asyncio, and fails when one held it for too long.

    Also the turn in which it begins and the one in which it ends: without a socket, a request and its answer may be one turn.
    """
    dog = Watchdog()
    before = growth()
    real = asyncio.Handle._run
    turn = threading.local()  # a server of another test may have a loop in a thread of its own
    turn.begun = time.thread_time()

    def note(what: object) -> None:
        begun = getattr(turn, "begun", None)
        if begun is not None and (seconds := time.thread_time() - begun) > dog.longest:
            dog.longest, dog.what = seconds, repr(what)[:300]
        turn.begun = None

    def run(self: asyncio.Handle) -> None:
        note("the turn that began to watch")
        turn.begun = time.thread_time()
        real(self)
        note(self)

    asyncio.Handle._run = run  # type: ignore[method-assign]
    try:
        yield dog
        note("the turn that ended to watch")
    finally:
        asyncio.Handle._run = real  # type: ignore[method-assign]
    judge(dog.longest, limit, f"the loop was held by {dog.what}", before)


@contextmanager
def watching_calls(limit: float = LONGEST_SECONDS) -> Iterator[Watchdog]:
    """Measures every call of a function in C, here and in threads that begin meanwhile, and fails when one took too long: no other
    thread has a turn until it ends, so that it holds the loop from wherever it is called.

    What a C function calls in Python gives way, and so counts by itself.
    """
    dog = Watchdog()
    before = growth()
    thread = threading.local()

    def note(frame: object, event: str, what: object) -> None:
        now = time.thread_time()
        begun = getattr(thread, "begun", None)
        if event in ("c_return", "c_exception") and begun is not None and now - begun > dog.longest:
            dog.longest, dog.what = now - begun, repr(what)[:300]
        thread.begun = time.thread_time() if event == "c_call" else None

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield dog
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    judge(dog.longest, limit, f"no thread had a turn during {dog.what}", before)
