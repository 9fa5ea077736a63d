"""Functions that yield, and functions that read what others yield, for `test_streams.py`."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import perdure
from tests.engine.tasks import gate_of, record
from tests.waiting import until_true

begun: list[tuple[str, int]] = []


async def count(n: int, ctx: perdure.Context, pause: int = 0, seconds: float = 0.0) -> AsyncIterator[int]:
    begun.append((ctx.node, ctx.attempt))
    for number in range(1, n + 1):
        if pause and number % pause == 0:
            await asyncio.sleep(seconds)
        yield number


def count_in_thread(n: int) -> Iterator[int]:
    yield from range(1, n + 1)


async def nothing() -> AsyncIterator[int]:
    for number in ():
        yield number


async def words(ctx: perdure.Context) -> AsyncIterator[str]:
    """Yield two words, and the third only when the gate is open."""
    yield "one "
    yield "two "
    await gate_of(f"words {ctx.run_id}").wait()
    yield "three"


async def add(numbers: perdure.Stream[int]) -> int:
    total = 0
    async for number in numbers:
        total += number
    return total


def add_in_thread(numbers: perdure.Stream[int]) -> int:
    return sum(numbers)


async def double(numbers: perdure.Stream[int]) -> AsyncIterator[int]:
    async for number in numbers:
        yield 2 * number


async def hear(heard: perdure.Stream[str], ctx: perdure.Context) -> list[str]:
    """Open the gate of the producer once two words were heard: they come while it still runs."""
    found: list[str] = []
    async for word in heard:
        found.append(word)
        if len(found) == 2:
            gate_of(f"words {ctx.run_id}").set()
    return found


async def sorts(n: int) -> AsyncIterator[Any]:
    for number in range(n):
        yield perdure.On("odd", number) if number % 2 else number


async def first(numbers: perdure.Stream[int]) -> int:
    async for number in numbers:
        return number
    return 0


async def breaks(n: int) -> AsyncIterator[int]:
    for number in range(n):
        yield number
    raise perdure.Abort("no more")


async def fails_once(n: int, ctx: perdure.Context) -> AsyncIterator[int]:
    """Yield other numbers the first time, and break off."""
    for number in range(1, n + 1):
        yield number if ctx.attempt > 1 else 1_000_000
        if ctx.attempt == 1 and number == n // 2:
            await gate_of(f"read {ctx.run_id}").wait()
            raise RuntimeError("the first time")


async def add_and_tell(numbers: perdure.Stream[int], ctx: perdure.Context) -> int:
    """Tell the producer that something of it was read."""
    total = 0
    async for number in numbers:
        total += number
        gate_of(f"read {ctx.run_id}").set()
    return total


async def wait_and_add(numbers: perdure.Stream[int], ctx: perdure.Context) -> int:
    """Take nothing before the gate is open."""
    await gate_of(f"read {ctx.run_id}").wait()
    return await add(numbers)


async def rescue(numbers: perdure.Stream[int]) -> str:
    found = 0
    try:
        async for _ in numbers:
            found += 1
    except perdure.StreamBroken as error:
        return f"{found} of {error.node}"
    return "whole"


async def add_in_steps(numbers: perdure.Stream[int], ctx: perdure.Context, every: int) -> dict[str, Any]:
    """Add up, keep the sum now and then, and fail once behind a checkpoint."""
    state = ctx.last_checkpoint or {"sum": 0, "read": 0}
    began = state["read"]
    async for number in numbers:
        state = {"sum": state["sum"] + number, "read": state["read"] + 1}
        if state["read"] % every == 0:
            await ctx.checkpoint(state)
            if ctx.attempt == 1:
                raise RuntimeError("behind a checkpoint")
    return {**state, "began": began, "position": numbers.position}


async def by_windows(numbers: perdure.Stream[int]) -> list[int]:
    return [len(window) async for window in perdure.windows(numbers, items=4)]


async def without_end(numbers: perdure.Stream[int]) -> list[list[int]]:
    return [window async for window in perdure.windows(numbers)]


async def gated(n: int, ctx: perdure.Context) -> AsyncIterator[int]:
    """Yield three, and the rest when the gate is open."""
    for number in range(1, n + 1):
        yield number
        if number == 3:
            await gate_of(f"three {ctx.run_id}").wait()


async def by_time(numbers: perdure.Stream[int], ctx: perdure.Context) -> list[list[int]]:
    """What came within a moment; the first of it opens the gate."""
    found: list[list[int]] = []
    async for window in perdure.windows(numbers, items=4, seconds=0.05):
        found.append(window)
        assert numbers.position == sum(map(len, found)), "a checkpoint would cover what is in no list"
        gate_of(f"three {ctx.run_id}").set()
    return found


def by_time_in_thread(numbers: perdure.Stream[int], ctx: perdure.Context) -> list[list[int]]:
    found: list[list[int]] = []
    for window in perdure.windows(numbers, seconds=0.05):
        found.append(window)
        assert numbers.position == sum(map(len, found))
        numbers._loop.call_soon_threadsafe(gate_of(f"three {ctx.run_id}").set)  # type: ignore[attr-defined]
    return found


async def one_after_the_other(left: perdure.Stream[int], right: perdure.Stream[int]) -> list[int]:
    """Read all of one side before the other: who waits for both would wait for ever."""
    return [sum([n async for n in left]), sum([n async for n in right])]


async def large(n: int, size: int) -> AsyncIterator[str]:
    for number in range(n):
        yield f"{number:08d}" + "x" * size


async def weigh(texts: perdure.Stream[str], ctx: perdure.Context) -> dict[str, int]:
    """Read slowly, and note how many chunks there were, in order."""
    found = 0
    async for text in texts:
        assert int(text[:8]) == found
        found += 1
    return {"chunks": found}


async def count_to_gate(n: int, path: str) -> AsyncIterator[int]:
    """Count, and stop half-way until there is such a file."""
    for number in range(1, n + 1):
        yield number
        if number == n // 2:
            await until_true(Path(path).exists, "the gate is open")


async def add_and_keep(numbers: perdure.Stream[int], ctx: perdure.Context) -> dict[str, int]:
    """Add up, keep the sum now and then, and say from where on it was this attempt's."""
    total, began = ctx.last_checkpoint or 0, -1
    async for number in numbers:
        began = number - 1 if began < 0 else began
        total += number
        if numbers.position % 50 == 0:
            await ctx.checkpoint(total)
    return {"sum": total, "began": began}


executions = itertools.count(1)


async def own_count(n: int, pause: float) -> AsyncIterator[list[int]]:
    """Count, and say with each number which execution says it: no two say the same."""
    execution = next(executions)
    for number in range(1, n + 1):
        if number % 3 == 0:
            await asyncio.sleep(pause)
        yield [execution, number]


async def add_one_count(numbers: perdure.Stream[list[int]], ctx: perdure.Context) -> int:
    """Add up what one execution says (F3), and keep the sum with every fifth number."""
    said, total = ctx.last_checkpoint or (0, 0)
    async for execution, number in numbers:
        if said not in (0, execution) or numbers.position != number:
            raise perdure.Abort(
                f"number {number} of execution {execution}, at {numbers.position}, after some of {said}"
            )
        said, total = execution, total + number
        if number % 5 == 0:
            await ctx.checkpoint([said, total])
    return total


async def slow_count(n: int, ctx: perdure.Context) -> AsyncIterator[int]:
    """Count, leaving a line for each tenth number, so that a test can kill the process somewhere in between."""
    for number in range(1, n + 1):
        if number % 10 == 0:
            record(ctx, "yield")
            await asyncio.sleep(0.001)
        yield number


async def slow_add(numbers: perdure.Stream[int], ctx: perdure.Context) -> int:
    total = ctx.last_checkpoint or 0
    async for number in numbers:
        total += number
        if numbers.position % 25 == 0:
            await ctx.checkpoint(total)
    return total


async def keep_adding(numbers: perdure.Stream[int], ctx: perdure.Context) -> int:
    """Add up, and keep the sum with every fifth number."""
    total = ctx.last_checkpoint or 0
    async for number in numbers:
        total += number
        if numbers.position % 5 == 0:
            await ctx.checkpoint(total)
    return total


async def repeat_count(n: int, ctx: perdure.Context, pause: int = 3, seconds: float = 0.0) -> AsyncIterator[int]:
    """Count, the same whenever it is asked."""
    begun.append((ctx.node, ctx.attempt))
    for number in range(1, n + 1):
        if number % pause == 0:
            await asyncio.sleep(seconds)
        yield number


async def repeat_and_fail(n: int, ctx: perdure.Context, after: int, lies: bool = False) -> AsyncIterator[int]:
    """Count, and break off once when a reader has read so many; then count again, or something else."""
    for number in range(1, n + 1):
        yield number + (1000 if lies and ctx.attempt > 1 and number == after // 2 else 0)
        if ctx.attempt == 1 and number == after:
            await gate_of(f"read {ctx.run_id}").wait()
            raise RuntimeError("the first time")


async def repeat_and_stop(n: int, ctx: perdure.Context) -> AsyncIterator[int]:
    """Count, break off once it was read, and yield less the second time."""
    begun.append((ctx.run_id, ctx.attempt))
    which = sum(run_id == ctx.run_id for run_id, _ in begun)
    for number in range(1, 3 if which == 2 else n + 1):
        yield number
    if ctx.attempt == 1:
        await gate_of(f"read {ctx.run_id}").wait()
        raise RuntimeError("the first time")


async def add_to(numbers: perdure.Stream[int], ctx: perdure.Context, until: int) -> int:
    """Add up, and tell the producer when so many were read."""
    total = 0
    async for number in numbers:
        total += number
        if numbers.position == until:
            gate_of(f"read {ctx.run_id}").set()
    return total


async def go_on(
    n: int, ctx: perdure.Context, every: int = 4, pause: float = 0.0, fails: int = 0
) -> AsyncIterator[list[int]]:
    """Count behind the last checkpoint, and say with each number which execution says it."""
    execution = next(executions)
    for number in range((ctx.last_checkpoint or 0) + 1, n + 1):
        if number % 3 == 0:
            await asyncio.sleep(pause)
        yield [execution, number]
        if number % every == 0:
            await ctx.checkpoint(number)
        if number == fails and ctx.attempt == 1:
            raise RuntimeError("the first time")


def go_on_in_thread(n: int, ctx: perdure.Context, every: int = 4, fails: int = 0) -> Iterator[list[int]]:
    for number in range((ctx.last_checkpoint or 0) + 1, n + 1):
        yield [ctx.attempt, number]
        if number % every == 0:
            ctx.checkpoint(number)
        if number == fails and ctx.attempt == 1:
            raise RuntimeError("the first time")


async def add_in_order(numbers: perdure.Stream[list[int]], ctx: perdure.Context) -> int:
    """Add up numbers that come in order, whoever says them, and keep the sum with every fifth one."""
    said, total = ctx.last_checkpoint or (0, 0)
    async for _, number in numbers:
        if number != said + 1 or numbers.position != number:
            raise perdure.Abort(f"number {number} at {numbers.position}, after {said}")
        said, total = number, total + number
        if number % 5 == 0:
            await ctx.checkpoint([said, total])
    return total


async def double_in_turn(numbers: perdure.Stream[int], ctx: perdure.Context) -> AsyncIterator[list[int]]:
    """Read and yield, and keep how far it is, so that another attempt goes on there."""
    async for number in numbers:
        yield [ctx.attempt, number]
        if number % 7 == 0:
            await ctx.checkpoint(number)
