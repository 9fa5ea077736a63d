"""Where the embedded engine executes tasks."""

from __future__ import annotations

from perdure.kernel.lifecycle import RunState
from tests.engine.helpers import ended, finish, output_of, running, start, task, workflow

R = RunState


async def test_a_node_on_another_queue_runs_in_the_embedded_engine(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, workflow(task("a", "echo", queue="gpu")))
        state = await ended(engine, seconds=1.0)
        assert state.state is R.COMPLETED


async def test_a_sync_function_runs_in_a_thread(tmp_path):
    async with running(tmp_path) as engine:
        state = await finish(engine, workflow(task("a", "echo_in_thread", args={"value": 1})))
        assert output_of(state, "a") == {"value": 1}
