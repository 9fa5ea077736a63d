"""Deadlines of runs."""

from __future__ import annotations

from perdure.kernel.lifecycle import RunState
from tests.engine import tasks
from tests.engine.helpers import ended, finish, running, start, task, workflow

R = RunState


async def test_a_deadline_fails_the_run_and_stops_its_work(tmp_path):
    definition = workflow(task("a", "gate", args={"name": "a"}), limits={"deadline_seconds": 0.2})
    async with running(tmp_path, worker_heartbeat_seconds=0.1) as engine:
        state = await finish(engine, definition)
        assert (state.state, state.error.code) == (R.FAILED, "deadline_exceeded")
        assert tasks.cancelled == ["a"]


async def test_a_run_that_waits_misses_its_deadline_too(tmp_path):
    definition = workflow({"id": "w", "type": "wait", "config": {"signal": "never"}})
    async with running(tmp_path) as engine:
        await start(engine, definition, deadline_seconds=0.1)
        state = await ended(engine)
        assert state.error.code == "deadline_exceeded"
