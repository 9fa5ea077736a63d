"""Waiting for something with an end: a time, or the first of several things. Nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from weft.clock import Clock


async def wait_at_most(clock: Clock, seconds: float, begin: Callable[[], Awaitable[Any]]) -> bool:
    """Whether what `begin` gives was done in time; it is cancelled otherwise. Its error is raised here."""

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
    """Return when one of these is done; the others are cancelled."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(wait) for wait in waits]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
