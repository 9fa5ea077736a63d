"""Waiting for what a test means: until a condition holds, but not for ever.

Threads, processes and servers have no event that a test could await, so it looks again and again. How often is here alone.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from typing import Any

PATIENCE_SECONDS = 120.0
"""A slow machine is no failure."""


def wait_until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """What the condition gives once it is true."""
    begun, tick = time.monotonic(), threading.Event()
    while not (found := condition()):
        waited = time.monotonic() - begun
        assert waited < seconds, f"waited {seconds:g} s in vain for this: {what}"
        tick.wait(_pause(waited))
    return found


def _pause(waited: float) -> float:
    """Looking takes time of a processor that others need: the longer it has taken, the less a little more of it matters."""
    return min(max(0.002, waited / 10), 0.05)


async def until_true(
    condition: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS, *, pause: float = 0.0
) -> Any:
    """The same on an event loop, where the condition may be a coroutine function; that too is given up in the end. `pause`: for
    conditions that cost more to look at than others."""
    try:
        begun = time.monotonic()
        async with asyncio.timeout(seconds):
            while True:
                found = condition()
                if inspect.isawaitable(found):
                    found = await found
                if found:
                    return found
                await asyncio.sleep(pause or _pause(time.monotonic() - begun))
    except TimeoutError:
        raise AssertionError(f"waited {seconds:g} s in vain for this: {what}") from None


def no_more(now: tuple[int, ...], before: tuple[int, ...]) -> bool:
    """Whether no count has grown. Fewer is no leak: what an earlier test left may end meanwhile."""
    return all(one <= other for one, other in zip(now, before, strict=True))
