"""Functions that know how many of them are at work, by name, and when each began."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict

import perdure

now: Counter[str] = Counter()
most: Counter[str] = Counter()
began: dict[str, list[float]] = defaultdict(list)
order: list[str] = []
stopping: dict[str, asyncio.Event] = {}
"""What those that were told to stop wait for."""


def reset() -> None:
    for one in (now, most, began, order, stopping):
        one.clear()


async def work(ctx: perdure.Context, name: str = "", turns: int = 5) -> str:
    """Some turns of the loop, in which others would begin if they could."""
    began[name].append(time.monotonic())
    order.append(ctx.run_id)
    now[name] += 1
    most[name] = max(most[name], now[name])
    try:
        for _ in range(turns):
            await asyncio.sleep(0.001)
    finally:
        now[name] -= 1
    return name


async def stubborn(ctx: perdure.Context, name: str = "") -> str:
    """Told to stop, it goes on until the test lets it."""
    began[name].append(time.monotonic())
    now[name] += 1
    most[name] = max(most[name], now[name])
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        let = stopping[name] = asyncio.Event()
        await let.wait()
        raise
    finally:
        now[name] -= 1
    return name
