"""Signals through the real engine, early, late and never."""

from __future__ import annotations

import pytest

from tests.engine import tasks
from tests.engine.helpers import ask, ended, finish, running, start, state_of, task, until, workflow


@pytest.mark.parametrize("early", [True, False])
async def test_a_signal_is_taken_whether_it_comes_before_the_wait_or_after(tmp_path, early):
    definition = workflow(
        task("a", "gate", args={"name": "a"}),
        {"id": "w", "type": "wait", "config": {"signal": "go"}, "dependencies": ["a"]},
        outputs={"got": "{{ w.n }}"},
    )
    async with running(tmp_path) as engine:
        await start(engine, definition)
        if not early:
            tasks.gate_of("a").set()
            await until(engine, lambda state: state_of(state, "w") == "waiting")
        await ask(engine, "signal", name="go", payload={"n": 5})
        await ask(engine, "signal", name="go", payload={"n": 6})
        tasks.gate_of("a").set()
        state = await ended(engine)
        assert state.outputs == {"got": 5}
        late = await ask(engine, "signal", name="go")
        assert late.code == "run_ended"


async def test_a_signal_that_does_not_come_in_time_fails_the_node(tmp_path):
    definition = workflow({"id": "w", "type": "wait", "config": {"signal": "go", "seconds": 0.05}})
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert state.error.code == "signal_timeout"
