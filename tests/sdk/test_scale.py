"""Large workflows are built in little time."""

from __future__ import annotations

import time

import pytest

import perdure
from tests.sdk.tasks import combine, echo, fetch, headlines


def chain(city: str):
    last = fetch(city)
    for number in range(3_333):
        last = fetch(f"{combine(last, headlines(city, number))} {number}")
    return last


def wide(city: str):
    return [fetch.options(retry=perdure.Retry(max_attempts=2))(f"{city} {number}") for number in range(10_000)]


def branching(city: str):
    value = fetch(city)
    for number in range(3_333):
        value = echo(perdure.branch(value, {value["a"] > number: lambda: headlines(city)}, default=lambda: echo(2)))
    return value


@pytest.mark.slow
@pytest.mark.parametrize("function", [chain, wide, branching])
def test_ten_thousand_calls_are_built_in_less_than_two_seconds(function):
    workflow = perdure.workflow(function)
    before = time.process_time()  # others may use the machine as well
    nodes = workflow.build().definition["nodes"]
    assert time.process_time() - before < 2
    assert 9_999 <= len(nodes) <= 10_001
    assert workflow.compiled.problems == ()
