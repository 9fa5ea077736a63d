"""`perdure.windows` over an iterator of somebody's own, as in a test of a function."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import perdure


async def numbers(gate: asyncio.Event | None = None) -> AsyncIterator[int]:
    for number in range(5):
        if number == 3 and gate is not None:
            await gate.wait()
        yield number


async def test_lists_of_so_many_and_the_rest():
    assert [window async for window in perdure.windows(numbers(), items=2)] == [[0, 1], [2, 3], [4]]


async def test_what_came_in_time_is_given_while_the_rest_does_not_come():
    gate, found = asyncio.Event(), []
    async for window in perdure.windows(numbers(gate), items=100, seconds=0.01):
        found.append(window)
        gate.set()
    assert [number for window in found for number in window] == [0, 1, 2, 3, 4]
    assert len(found) > 1


async def test_who_stops_early_leaves_nothing_running():
    made: Any = aiter(perdure.windows(numbers(asyncio.Event()), seconds=0.01))
    assert (await anext(made))[0] == 0
    await made.aclose()
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == 1


async def test_an_error_of_what_is_read_comes_through():
    async def fails() -> AsyncIterator[int]:
        yield 1
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        _ = [window async for window in perdure.windows(fails(), seconds=10)]


@pytest.mark.parametrize(
    "how", [{}, {"items": 0}, {"seconds": 0}, {"seconds": float("nan")}, {"seconds": float("inf")}]
)
def test_windows_without_an_end_are_refused(how):
    with pytest.raises(ValueError, match="expected"):
        perdure.windows(numbers(), **how)


def test_only_a_stream_is_read_by_for():
    with pytest.raises(TypeError, match="async for"):
        iter(perdure.windows(numbers(), items=2))
