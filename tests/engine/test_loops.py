"""Loops through the real engine."""

from __future__ import annotations

import pytest

from perdure.kernel.lifecycle import RunState
from tests.engine.helpers import ended, events, finish, running, start, task, transform, workflow

R = RunState


async def test_a_loop_goes_round_with_a_delay_and_ends(tmp_path):
    loop = {"condition": "!output.done", "max_iterations": 10, "delay_ms": 20}
    definition = workflow(
        task("begin"),
        task("again", "count", ["begin"], args={"upto": 3}, loop=loop),
        task("end", "echo", ["again"], args={"value": "{{ again.at }}"}),
        outputs={"at": "{{ end.value }}"},
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert state.outputs == {"at": 3}
        began = [event.at for event in await events(engine.journal) if event.type == "loop.advanced"]
        fired = [event.at for event in await events(engine.journal) if event.type == "timer.fired"]
        assert len(began) == len(fired) == 2
        assert all(fire - begin >= 0.02 for begin, fire in zip(began, fired, strict=True))


@pytest.mark.slow
async def test_a_loop_of_two_thousand_trivial_rounds_does_not_starve_the_others(tmp_path):
    loop = {"condition": "loop.iteration < 2000", "max_iterations": 3000}
    definition = workflow(transform("again", "{{ loop.iteration }}", loop=loop), outputs={"at": "{{ again }}"})
    async with running(tmp_path) as engine:
        await start(engine, definition, "long")
        other = await finish(engine, workflow(task("a")), "short")
        assert other.state is R.COMPLETED
        state = await ended(engine, "long")
        assert state.outputs == {"at": 2000}
