"""How long anything holds the loop, in processor time of its thread: another program on the machine does not count."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_SECONDS = 0.1


class Watchdog:
    def __init__(self) -> None:
        self.longest = 0.0
        self.what = ""


@contextmanager
def watching() -> Iterator[Watchdog]:
    """Measures every turn of the loops of asyncio, and fails when one held it for too long.

    Also the turn in which it begins and the one in which it ends: without a socket, a request and its answer may be one turn.
    """
    dog = Watchdog()
    real = asyncio.Handle._run
    begun: float | None = time.thread_time()

    def note(what: object) -> None:
        nonlocal begun
        if begun is not None and (seconds := time.thread_time() - begun) > dog.longest:
            dog.longest, dog.what = seconds, repr(what)[:300]
        begun = None

    def run(self: asyncio.Handle) -> None:
        nonlocal begun
        note("the turn that began to watch")
        begun = time.thread_time()
        real(self)
        note(self)

    asyncio.Handle._run = run  # type: ignore[method-assign]
    try:
        yield dog
        note("the turn that ended to watch")
    finally:
        asyncio.Handle._run = real  # type: ignore[method-assign]
    assert dog.longest < LONGEST_SECONDS, f"the loop was held for {dog.longest:.2f} s by {dog.what}"
