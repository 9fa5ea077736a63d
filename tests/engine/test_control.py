"""Runs that people pause, cancel and retry."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from perdure.kernel.lifecycle import RunState
from tests.engine import tasks
from tests.engine.helpers import ask, check, ended, finish, running, start, state_of, task, until, until_true, workflow

R = RunState


async def test_a_paused_run_starts_nothing_and_resumes_where_it_was(tmp_path):
    definition = workflow(task("a", "gate", args={"name": "a"}), task("b", "echo", ["a"]))
    async with running(tmp_path) as engine:
        await start(engine, definition)
        await until_true(lambda: tasks.seen, "it runs")
        assert (await ask(engine, "pause")).state == "paused"
        tasks.gate_of("a").set()
        state = await until(engine, lambda state: state_of(state, "b") == "held")
        assert state.state is R.PAUSED
        assert len(tasks.seen) == 1
        assert (await ask(engine, "resume")).state == "running"
        assert (await ended(engine)).state is R.COMPLETED
        assert len(tasks.seen) == 2


@pytest.mark.slow
async def test_pause_and_resume_in_one_batch_lose_no_queued_task(tmp_path):
    nodes = [task(f"n{number}", "echo") for number in range(40)]
    async with running(tmp_path, concurrency=1) as engine:
        import asyncio

        await start(engine, workflow(*nodes))
        await asyncio.gather(ask(engine, "pause"), ask(engine, "resume"))
        await asyncio.gather(ask(engine, "pause"), ask(engine, "resume"), ask(engine, "pause"), ask(engine, "resume"))
        state = await ended(engine)
        assert state.state is R.COMPLETED
        assert len(tasks.seen) == 40


async def test_cancel_reaches_the_handler_that_runs(tmp_path):
    definition = workflow(task("a", "gate", args={"name": "a"}), task("b", "echo", ["a"]))
    async with running(tmp_path, worker_heartbeat_seconds=0.1) as engine:
        await start(engine, definition)
        await until_true(lambda: tasks.seen, "it runs")
        assert (await ask(engine, "cancel", reason="no longer wanted")).state in ("cancelling", "cancelled")
        state = await ended(engine)
        assert state.state is R.CANCELLED
        assert tasks.cancelled == ["a"]
        assert state_of(state, "b") in ("pending", "cancelled")
        await until_true(lambda: not engine.coordinator.memory.runs, "no run is in memory")


async def test_a_forced_cancel_does_not_wait_for_anybody(tmp_path):
    definition = workflow(task("a", "gate", args={"name": "a"}))
    async with running(tmp_path) as engine:
        await start(engine, definition)
        await until_true(lambda: tasks.seen, "it runs")
        assert (await ask(engine, "cancel", force=True)).state == "cancelled"
        assert (await ended(engine)).state is R.CANCELLED
        tasks.gate_of("a").set()
        assert (await ask(engine, "retry")).refused


async def test_what_checks_a_run_at_its_end_takes_a_fact_that_comes_between_its_readings(tmp_path):
    """The result of a handler that was cancelled by force is ignored, and that is written down after the end (J4)."""

    class Behind:
        """A journal whose last event comes after the first time somebody has read the events."""

        def __init__(self, journal: Any) -> None:
            self._journal = journal
            self._lags = True

        def __getattr__(self, name: str) -> Any:
            return getattr(self._journal, name)

        async def get_run(self, run_id: str) -> Any:
            record = await self._journal.get_run(run_id)
            return msgspec.structs.replace(record, seq=record.seq - self._lags)

        async def read_events(self, run_id: str, *where: Any) -> Any:
            found = await self._journal.read_events(run_id, *where)
            lags, self._lags = self._lags, False
            return found[:-1] if lags else found

    async with running(tmp_path) as engine:
        state = await finish(engine, workflow(task("a")))
        assert len(await check(Behind(engine.journal))) == state.seq


async def test_cancelling_before_anything_was_claimed_ends_at_once(tmp_path):
    nodes = [task(f"n{number}", "gate", args={"name": "a"}) for number in range(5)]
    async with running(tmp_path, concurrency=1) as engine:
        await start(engine, workflow(*nodes))
        await ask(engine, "cancel")
        state = await ended(engine)
        assert state.state is R.CANCELLED
        assert len(tasks.seen) <= 1


async def test_a_failed_run_is_retried_and_what_completed_does_not_run_again(tmp_path):
    flag = tmp_path / "flag"
    flag.touch()
    definition = workflow(
        task("a"),
        task("b", "fail_while", ["a"], args={"path": str(flag)}),
        task("c", "echo", ["b"]),
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert (state.state, state.error.code) == (R.FAILED, "aborted")
        flag.unlink()
        assert (await ask(engine, "retry")).state == "running"
        state = await until(engine, lambda state: state.terminal and state.generation == 2)
        assert state.state is R.COMPLETED
        assert len([key for key, _ in tasks.seen if "/a" in key]) == 1
        assert (await ask(engine, "retry")).code == "not_failed"
