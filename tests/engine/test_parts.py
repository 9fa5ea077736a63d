"""No part of an engine may end before the others unnoticed, however that comes about."""

from __future__ import annotations

import asyncio
import logging

import pytest

from perdure.journal import Conflict
from perdure.kernel.lifecycle import RunState
from perdure.runtime.parts import EngineStopped
from perdure.runtime.worker.worker import WorkerStopped
from tests.engine import tasks
from tests.engine.helpers import ask, compiled, crash, ended, opened, running, start, task, until_true, workflow

R = RunState
GATED = workflow(task("a", "gate", args={"name": "a"}))


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL)


PARTS = ["coordinator", "fetcher", "results", "begins", "timekeeper", "listener", "reclaimer", "worker"]


@pytest.mark.parametrize("part", PARTS)
async def test_a_part_that_is_cancelled_stops_the_engine_and_the_next_start_goes_on(tmp_path, part):
    engine = await opened(tmp_path)
    await engine.hold()
    await start(engine, GATED)
    await until_true(lambda: tasks.seen, "the handler runs")
    watching = asyncio.create_task(engine.until_broken())
    (one,) = [one for one in engine.parts.tasks if one.get_name() == f"perdure-{part}"]
    one.cancel()
    with pytest.raises(EngineStopped, match=f"perdure-{part} stopped"):
        await asyncio.wait_for(watching, 10)
    with pytest.raises(EngineStopped):
        await ask(engine, "pause")
    await crash(engine)
    tasks.gate_of("a").set()
    async with running(tmp_path) as second:
        assert (await ended(second)).state is R.COMPLETED


@pytest.mark.parametrize("agent", ["Reporter.run", "Watch.run", "Worker._claim"])
async def test_a_worker_does_not_live_on_without_one_of_its_parts(tmp_path, agent):
    engine = await opened(tmp_path)
    await engine.hold()
    await start(engine, GATED)
    await until_true(lambda: tasks.seen, "the handler runs")
    (one,) = [one for one in asyncio.all_tasks() if one.get_coro().__qualname__ == agent]
    one.cancel()
    with pytest.raises(EngineStopped, match="perdure-worker stopped") as caught:
        await asyncio.wait_for(engine.until_broken(), 10)
    assert isinstance(caught.value.__cause__, BaseExceptionGroup)
    assert caught.value.__cause__.subgroup(WorkerStopped) is not None
    await crash(engine)


async def test_a_caller_that_goes_away_takes_nothing_with_it(tmp_path):
    async with running(tmp_path) as engine:
        ir, _ = await engine.workflows.register(compiled(workflow(task("a", "echo"))))
        for number in range(20):
            asking = asyncio.create_task(start(engine, ir, f"r{number}"))
            for _ in range(number % 7):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        await start(engine, ir, "last")
        assert (await ended(engine, "last")).state is R.COMPLETED
        for number in range(20):
            if await engine.journal.find_run(f"r{number}") is not None:
                assert (await ended(engine, f"r{number}")).state is R.COMPLETED


async def test_a_read_that_is_interrupted_does_not_make_a_run_unknown(tmp_path):
    """Whoever cancels the reading of a run: it is read again, and nobody is told that there is no such run."""
    async with running(tmp_path) as engine:
        await start(engine, workflow({"id": "s", "type": "wait", "config": {"signal": "go"}}))
        coordinator = engine.coordinator
        coordinator.memory.runs.clear()
        find, interrupted = coordinator.journal.find_run, []

        async def find_run(run_id):
            if not interrupted:
                interrupted.append(run_id)
                asyncio.current_task().cancel()
                await asyncio.sleep(0)
            return await find(run_id)

        coordinator.journal.find_run = find_run
        try:
            assert not (await ask(engine, "signal", name="go")).refused
        finally:
            coordinator.journal.find_run = find
        assert interrupted
        assert (await ended(engine)).state is R.COMPLETED


async def test_what_the_journal_refuses_again_and_again_is_written_before_an_engine_closes(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, GATED)
        await until_true(lambda: tasks.seen, "the handler runs")
        append, refused = engine.journal.append, []

        async def refuse(commits):
            if len(refused) < 5:
                refused.append(commits)
                return [Conflict(commit.expected_seq, "another") for commit in commits]
            return await append(commits)

        engine.journal.append = refuse
        tasks.gate_of("a").set()
    assert len(refused) == 5
    reading = await opened(tmp_path)
    assert (await reading.runs.state("r1")).state is R.COMPLETED
    await reading.close()
