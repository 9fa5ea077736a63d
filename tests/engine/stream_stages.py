"""Functions of a long stream in three stages, for `test_stream_kills.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import perdure
from tests.engine.tasks import record


def repeat_far(n: int) -> Iterator[int]:
    yield from range(1, n + 1)


async def pass_on(numbers: perdure.Stream[int], ctx: perdure.Context) -> AsyncIterator[int]:
    """Pass each number on, and keep now and then how far that is."""
    async for number in numbers:
        yield number
        if numbers.position % 2000 == 0:
            await ctx.checkpoint(number)


async def add_far(numbers: perdure.Stream[int], ctx: perdure.Context) -> int:
    """Add up, and leave a line with each checkpoint, so that a test can kill the process somewhere in between."""
    total = ctx.last_checkpoint or 0
    async for number in numbers:
        total += number
        if numbers.position % 1000 == 0:
            await ctx.checkpoint(total)
            record(ctx, "add")
    return total
