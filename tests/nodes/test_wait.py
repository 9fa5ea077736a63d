"""`wait` in the real engine: a time, a moment, a signal."""

import time

import pytest

from perdure.kernel import events as e
from perdure.model import DefinitionError
from tests.engine.helpers import (
    ask,
    compiled,
    ended,
    events,
    finish,
    output_of,
    running,
    start,
    state_of,
    transform,
    until,
    workflow,
)


def waiting(**config):
    return workflow({"id": "w", "type": "wait", "config": config}, transform("after", "{{ w }}", ["w"]))


async def wait_of(engine):
    await until(engine, lambda state: state_of(state, "w") == "waiting")
    [event] = [event for event in await events(engine.journal) if isinstance(event, e.NodeWaiting)]
    return event


async def test_it_waits_so_many_seconds_and_gives_an_empty_object(tmp_path):
    async with running(tmp_path) as engine:
        begun = time.monotonic()
        state = await finish(engine, waiting(seconds=0.2))
        assert time.monotonic() - begun >= 0.2
    assert (output_of(state, "w"), output_of(state, "after")) == ({}, {})


@pytest.mark.parametrize(
    "until_when", ["2020-01-31T09:00:00Z", "2020-01-31T10:00:00+01:00", "2020-01-31 09:00", 1_580_461_200]
)
async def test_a_moment_that_has_passed_is_now(tmp_path, until_when):
    async with running(tmp_path) as engine:
        state = await finish(engine, waiting(until=until_when))
        [event] = [event for event in await events(engine.journal) if isinstance(event, e.NodeWaiting)]
    assert (state.state, event.wait.until) == ("completed", 1_580_461_200)


async def test_a_moment_to_come_may_be_computed(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, waiting(until="{{ inputs.when }}"), inputs={"when": "2099-01-31"})
        assert (await wait_of(engine)).wait.until == 4_073_500_800
        await ask(engine, "cancel")
        await ended(engine)


@pytest.mark.parametrize("limit", [{}, {"seconds": 3600}, {"until": "2099-01-01T00:00:00Z"}])
async def test_a_signal_gives_its_payload(tmp_path, limit):
    async with running(tmp_path) as engine:
        await start(engine, waiting(signal="paid", **limit))
        await wait_of(engine)
        await ask(engine, "signal", name="other", payload=1)
        await ask(engine, "signal", name="paid", payload={"amount": 3})
        assert output_of(await ended(engine), "after") == {"amount": 3}


async def test_a_signal_that_does_not_come_before_its_moment_is_a_failure(tmp_path):
    async with running(tmp_path) as engine:
        state = await finish(engine, waiting(signal="paid", until="2020-01-01"))
    assert state.error.code == "signal_timeout"


@pytest.mark.parametrize(
    ("config", "path", "words"),
    [
        ({}, "", "needs 'seconds', 'until', 'signal' or 'event'"),
        ({"seconds": -1}, "seconds", "at least 0"),
        ({"seconds": "10"}, "seconds", "must be a number, got '10'"),
        ({"seconds": 1e12}, "seconds", "at most"),
        ({"seconds": 1, "until": "2099-01-01"}, "until", "keep one of them"),
        ({"until": "tomorrow"}, "until", "a time such as"),
        ({"until": -5}, "until", "a time such as"),
        ({"signal": ""}, "signal", ""),
        ({"second": 1}, "second", "did you mean 'seconds'?"),
        ({"signal": "go", "key": "a"}, "key", "is about an 'event'"),
        ({"signal": "go", "event": "paid"}, "signal", "keep one of them"),
        ({"event": "{{ inputs.name }}"}, "event", "is fixed"),
        ({"event": "order paid"}, "event", "such as order.paid"),
        ({"event": "paid", "given": 1}, "given", "there is no 'match'"),
        ({"event": "paid", "match": "event.n > {{ inputs.n }}"}, "match", "put values into 'given'"),
        ({"event": "paid", "match": "event.n >"}, "match", ""),
        ({"event": "paid", "match": "other.n > 1"}, "match", "other"),
        ({"event": "paid", "since": "ever"}, "since", ""),
    ],
)
async def test_a_wait_for_nothing_is_refused_before_it_runs(tmp_path, config, path, words):
    async with running(tmp_path) as engine:
        with pytest.raises(DefinitionError) as caught:
            await engine.workflows.register(compiled(waiting(**config)))
    problem = caught.value.problems[0]
    assert problem.path == f"nodes.w.config.{path}".rstrip(".")
    assert words in problem.message


@pytest.mark.parametrize("when", ["soon", None, [1], 1e300])
async def test_a_moment_that_turns_out_to_be_none_fails_at_once(tmp_path, when):
    async with running(tmp_path) as engine:
        state = await finish(engine, waiting(until="{{ inputs.when }}"), inputs={"when": when})
    assert (state.error.code, state.error.attempts) == ("bad_config", 1)


@pytest.mark.parametrize("key", ["", True, None, ["a"], "x" * 501, "a\0b"])
async def test_a_key_that_turns_out_to_be_none_fails_at_once(tmp_path, key):
    async with running(tmp_path) as engine:
        state = await finish(engine, waiting(event="paid", key="{{ inputs.key }}"), inputs={"key": key})
    assert (state.error.code, state.error.attempts) in {("bad_key", 1), ("bad_config", 1)}
