"""What all attempts of one process share: a model in memory, a pool of connections. It is opened before the first attempt
that uses it, closed when the process ends, and opened anew after memory ran out or its code was loaded again.

It owns who uses what, and when it may be closed. It must not know tasks, nodes or workers.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from perdure.clock import Clock
from perdure.outcomes import Failure, is_out_of_memory

CLOSE_SECONDS = 5.0
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0

_log = logging.getLogger(__name__)

InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Calls a function of the user's in a thread, and gives what it returns."""


class Opener(NamedTuple):
    """How something is opened and closed. Functions may be sync, and are then called in a thread, or async."""

    name: str
    """What people call it, and where it is kept: one of a name is open at a time."""
    owner: object
    """What it is made from. Another owner under the same name is the same code, loaded anew."""
    open: Callable[[], Any]
    then: Callable[[Any], Any] | None = None
    """What is done with the opened value before it is used."""
    close: Callable[[Any], Any] | None = None


class _Kept:
    __slots__ = (
        "failures",
        "free",
        "is_open",
        "is_stale",
        "lock",
        "opener",
        "opening",
        "pause_until",
        "users",
        "value",
    )

    def __init__(self, opener: Opener) -> None:
        self.opener = opener
        self.lock = asyncio.Lock()
        self.free = asyncio.Event()
        self.free.set()
        self.users = 0
        self.value: Any = None
        self.is_open = False
        self.is_stale = False
        self.opening: asyncio.Task[Any] | None = None
        self.failures = 0
        self.pause_until = 0.0


class SharedValues:
    """The values that attempts of one process share; used on one event loop."""

    def __init__(self, clock: Clock, in_thread: InThread) -> None:
        self._clock = clock
        self._in_thread = in_thread
        self._kept: dict[str, _Kept] = {}

    @property
    def has_open(self) -> bool:
        return any(kept.is_open for kept in self._kept.values())

    def is_failing(self, name: str) -> bool:
        """Whether it could not be opened, and is not tried again yet."""
        kept = self._kept.get(name)
        return kept is not None and self._clock.monotonic() < kept.pause_until

    @asynccontextmanager
    async def use(self, opener: Opener) -> AsyncIterator[Any]:
        """The shared value, opened if it is not yet. It is not closed while the body runs."""
        kept = self._kept.setdefault(opener.name, _Kept(opener))
        async with kept.lock:
            if kept.is_open and (kept.is_stale or kept.opener.owner is not opener.owner):
                await kept.free.wait()
                await self._close(kept)
            if not kept.is_open:
                await self._open(kept, opener)
            kept.users += 1
            kept.free.clear()
        try:
            yield kept.value
        except BaseException as error:
            # What it holds may be what fills the memory: the next attempt begins with a new one.
            kept.is_stale = kept.is_stale or is_out_of_memory(error)
            raise
        finally:
            kept.users -= 1
            if not kept.users:
                kept.free.set()

    async def close(self) -> None:
        """Close everything, even what is in use."""
        for kept in list(self._kept.values()):
            if kept.opening is not None:
                kept.opening.cancel()
            if kept.is_open:
                await self._close(kept)
        self._kept.clear()

    async def _open(self, kept: _Kept, opener: Opener) -> None:
        if kept.opener.owner is not opener.owner:  # new code may well be mended code
            kept.opener, kept.opening, kept.pause_until = opener, None, 0.0
        left = kept.pause_until - self._clock.monotonic()
        if left > 0:
            message = f"{opener.name} could not be opened, and is tried again in {left:.0f} s"
            raise Failure("initialize_failed", message, retry_after=left, not_done=True)
        if kept.opening is None:
            kept.opening = asyncio.get_running_loop().create_task(open_value(opener, self._in_thread))
        try:
            # An attempt that is over does not undo what the next one needs: a large model may take longer than one attempt.
            value = await asyncio.shield(kept.opening)
        except asyncio.CancelledError:
            if kept.opening.cancelled():
                kept.opening = None
            raise
        except Exception as error:
            kept.opening = None
            kept.failures += 1
            pause = min(_FIRST_PAUSE * 2.0 ** min(kept.failures - 1, 10), _LONGEST_PAUSE)
            kept.pause_until = self._clock.monotonic() + pause
            if is_out_of_memory(error):
                raise
            message = f"{opener.name} could not be opened: {type(error).__name__}: {error}"
            # Not before the pause is over: an attempt that came meanwhile would be spent on nothing.
            raise Failure("initialize_failed", message, retry_after=pause, not_done=True) from error
        kept.opening, kept.value, kept.is_open, kept.is_stale = None, value, True, False
        kept.failures, kept.pause_until = 0, 0.0

    async def _close(self, kept: _Kept) -> None:
        value, kept.value, kept.is_open = kept.value, None, False
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await close_value(kept.opener, value, self._in_thread)
        except Exception:  # noqa: BLE001  whatever closing does, the worker goes on, or ends
            _log.exception("%s could not be closed", kept.opener.name)


async def open_value(opener: Opener, in_thread: InThread) -> Any:
    value = await _call(in_thread, opener.open)
    if opener.then is not None:
        await _call(in_thread, opener.then, value)
    return value


async def close_value(opener: Opener, value: Any, in_thread: InThread) -> None:
    if opener.close is not None:
        await _call(in_thread, opener.close, value)


@asynccontextmanager
async def opened(opener: Opener, in_thread: InThread) -> AsyncIterator[Any]:
    """A value for one use."""
    value = await open_value(opener, in_thread)
    try:
        yield value
    finally:
        await close_value(opener, value, in_thread)


async def _call(in_thread: InThread, function: Callable[..., Any], *arguments: Any) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)
    value = await in_thread(lambda: function(*arguments))
    return await value if inspect.isawaitable(value) else value
