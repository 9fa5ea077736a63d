"""Rates: never more than the limit in any stretch of their length, and no fewer for long."""

import asyncio
import time

import pytest

from perdure.limits import Ask, Full, Limit
from tests.conformance.limits.test_slots import enter
from tests.conformance.transport.messages import soon

HOURLY = Limit("t", "key", 3, 3600.0)


async def test_a_rate_lets_its_limit_pass_at_once_and_no_more(pair):
    assert await enter(pair.one, "ab", HOURLY) == ["a", "b"]
    assert await enter(pair.other, "cde", HOURLY) == ["c"]
    assert await enter(pair.one, "f", HOURLY) == []


async def test_what_has_passed_is_not_given_back(pair):
    await enter(pair.one, "abc", HOURLY)
    await pair.one.leave([("a", HOURLY)])
    assert await enter(pair.one, "ad", HOURLY) == []


async def test_a_rate_says_when_the_next_one_may_pass(pair):
    await enter(pair.one, "abc", HOURLY)
    [answer] = await pair.one.enter([Ask("d", (HOURLY,))])
    assert isinstance(answer, Full)
    assert answer.limit == HOURLY
    assert answer.retry_seconds >= 3590
    assert answer.retry_seconds <= 3600 * 1.1 + 1


async def test_rates_of_different_lengths_are_apart(pair):
    assert await enter(pair.one, "abcd", HOURLY) == ["a", "b", "c"]
    assert await enter(pair.one, "abcd", Limit("t", "key", 2, 60.0)) == ["a", "b"]


async def test_slots_are_left_when_a_rate_refuses(pair):
    slots = Limit("t", "key", 1)
    await enter(pair.one, "abc", HOURLY)
    assert await enter(pair.one, "d", slots, HOURLY) == []
    assert await enter(pair.one, "e", slots) == ["e"]


@pytest.mark.slow
async def test_no_stretch_of_its_length_sees_more_than_the_limit(pair):
    """Asked as fast as it goes, for several lengths; each answer lies between the times before and after it."""
    limit = Limit("t", "fast", 5, 0.2)
    passed: list[tuple[float, float]] = []

    async def rush():
        number = 0
        while len(passed) < 20:
            number += 1
            before = time.monotonic()
            if await enter(pair.one if number % 2 else pair.other, [f"o{number}"], limit):
                passed.append((before, time.monotonic()))
            await asyncio.sleep(0)

    await soon(rush())
    for (first, _), (_, sixth) in zip(passed, passed[5:], strict=False):
        assert sixth - first >= 0.2, "six were surely within the length"
    assert passed[19][1] - passed[0][0] < 10 * 0.2, "and it does not stand still"
