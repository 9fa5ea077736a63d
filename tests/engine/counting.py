"""Functions that know how many of them are at work, by name, and when each began."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict

import weft

now: Counter[str] = Counter()
most: Counter[str] = Counter()
began: dict[str, list[float]] = defaultdict(list)
order: list[str] = []


def reset() -> None:
    for one in (now, most, began, order):
        one.clear()


async def work(ctx: weft.Context, name: str = "", turns: int = 5) -> str:
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
