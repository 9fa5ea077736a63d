"""Attempts through the real engine: their backoff and their times."""

from __future__ import annotations

from perdure.kernel.lifecycle import RunState
from tests.engine import tasks
from tests.engine.helpers import ended, finish, output_of, running, start, state_of, task, until, until_true, workflow

R = RunState


async def test_a_failing_node_is_tried_again_after_its_backoff(tmp_path):
    definition = workflow(
        task("a", "fail", args={"times": 2}, retry={"max_attempts": 3, "backoff_ms": 30, "jitter": False})
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert state.state is R.COMPLETED
        assert output_of(state, "a") == {"attempt": 3}
        assert len({key for key, _ in tasks.seen}) == 1


async def test_a_task_that_nobody_takes_times_out_in_its_queue(tmp_path):
    definition = workflow(
        task("a", "gate", args={"name": "a"}),
        task("b", "echo", queue_timeout_seconds=0.1, on_failure="continue"),
    )
    async with running(tmp_path, concurrency=1) as engine:
        await start(engine, definition)
        state = await until(engine, lambda state: state_of(state, "b") not in ("pending", "queued"))
        assert state.find("b").error.code == "queue_timeout"
        tasks.gate_of("a").set()
        state = await ended(engine)
        assert [key for key, _ in tasks.seen if "/b" in key] == []
        coordinator = engine.coordinator
        await until_true(
            lambda: not coordinator.memory.runs and len(coordinator.publisher.dispatcher) == 0, "an empty coordinator"
        )


async def test_all_attempts_together_have_a_time(tmp_path):
    retry = {"max_attempts": 1000, "backoff_ms": 20, "multiplier": 1.0, "jitter": False}
    definition = workflow(task("a", "fail", retry=retry, total_timeout_seconds=0.2))
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert state.error.code == "total_timeout"


async def test_one_attempt_has_a_time(tmp_path):
    definition = workflow(task("a", "gate", args={"name": "a"}, timeout_seconds=0.05, retry={"max_attempts": 1}))
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert state.error.code == "timeout"
        assert tasks.cancelled == ["a"]
