"""Ways to wait that leave no task behind: for a limited time, for the first of several things, for an absent store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from perdure.clock import Clock
from perdure.errors import StoreUnavailable
from perdure.journal import JournalClosed
from perdure.transport import TransportClosed, TransportUnavailable

logger = logging.getLogger("perdure.waiting")

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0
COMPLAINT_SECONDS = 10.0
AT_ONCE = 32
"""How many calls to a store run side by side."""
T = TypeVar("T")


class OutageLog:
    """A log of what keeps failing: a line when it begins and every ten seconds after, since loops look many times a
    second and outages last."""

    def __init__(self, clock: Clock, log: logging.Logger, what: str) -> None:
        self._clock = clock
        self._log = log
        self._what = what
        self._next = 0.0
        self._unsaid = 0

    def say(self, error: Exception) -> None:
        now = self._clock.monotonic()
        if now < self._next:
            self._unsaid += 1
            return
        more = f" ({self._unsaid} more times meanwhile)" if self._unsaid else ""
        self._log.warning("%s: %s%s", self._what, error, more)
        self._next, self._unsaid = now + COMPLAINT_SECONDS, 0


async def insist(clock: Clock, call: Callable[[], Awaitable[T]]) -> T:
    """Repeat a call until its store or transport answers, however long that is away. For calls that may be repeated."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            return await call()
        except (JournalClosed, TransportClosed):
            raise
        except (StoreUnavailable, TransportUnavailable) as error:
            logger.warning("%s; trying again in %.2f s", error, pause)
            await clock.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


async def side_by_side(
    call: Callable[[str], Awaitable[Any]], names: Sequence[str], at_once: int = AT_ONCE
) -> dict[str, Exception]:
    """Make a call for each name, some at a time, and return the errors by name."""
    problems: dict[str, Exception] = {}
    for first in range(0, len(names), at_once):
        some = names[first : first + at_once]
        results = await asyncio.gather(*map(call, some), return_exceptions=True)
        for name, result in zip(some, results, strict=True):
            if isinstance(result, Exception):
                problems[name] = result
            elif isinstance(result, BaseException):  # the call was cancelled, which is no answer
                problems[name] = StoreUnavailable(f"reading {name} was interrupted")
    return problems


async def beside(*calls: Awaitable[Any]) -> None:
    """Make calls side by side: what they send in one turn of the loop leaves in one write. All of them end before the
    first error is raised."""
    for end in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(end, BaseException):
            raise end


async def wait_at_most(clock: Clock, seconds: float, begin: Callable[[], Awaitable[Any]]) -> bool:
    """Whether the work that `begin` starts is done in time; if not, it is cancelled. Its error is raised here, in a
    group."""

    async def wait() -> None:
        await begin()

    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(wait())
        sleeping = group.create_task(clock.sleep(seconds))
        await asyncio.wait({waiting, sleeping}, return_when=asyncio.FIRST_COMPLETED)
        done = waiting.done()
        waiting.cancel()
        sleeping.cancel()
    return done


async def first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    """Return when one of the waits is done; the others are cancelled."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(wait) for wait in waits]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
