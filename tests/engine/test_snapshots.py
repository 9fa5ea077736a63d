"""Runs that leave memory and come back, with their snapshots and without."""

from __future__ import annotations

import pytest

from perdure.kernel.lifecycle import RunState
from tests.engine import tasks
from tests.engine.helpers import ask, ended, running, start, state_of, task, until, until_true, workflow

R = RunState


@pytest.mark.slow
async def test_idle_runs_leave_memory_and_come_back(tmp_path):
    definition = workflow(
        task("a"),
        {"id": "w", "type": "wait", "config": {"signal": "go"}, "dependencies": ["a"]},
        task("b", "echo", ["w"]),
    )
    async with running(tmp_path) as engine:
        engine.coordinator.memory._keep_idle = 3
        for number in range(20):
            await start(engine, definition, f"r{number}")
            await until(engine, lambda state: state_of(state, "w") == "waiting", f"r{number}")
        assert len(engine.coordinator.memory.runs) <= 4
        for number in range(20):
            await ask(engine, "signal", f"r{number}", name="go")
        for number in range(20):
            assert (await ended(engine, f"r{number}")).state is R.COMPLETED
        await until_true(lambda: not engine.coordinator.memory.runs, "no run is in memory")
        assert len(tasks.seen) == 40


async def test_a_number_that_no_snapshot_holds_costs_only_the_snapshot(tmp_path, monkeypatch):
    from perdure.runtime.coordinator import loaded

    monkeypatch.setattr(loaded, "SNAPSHOT_EVERY", 3)
    nodes = [{"id": "a", "type": "transform", "config": {"jq": "100000000000000000000", "input": 1}}]
    nodes += [task(f"b{n}", "echo", [f"b{n - 1}" if n else "a"]) for n in range(5)]
    async with running(tmp_path) as engine:
        await start(engine, workflow(*nodes))
        await until(engine, lambda state: state.state is R.COMPLETED)
        assert await engine.journal.find_snapshot("r1") is None


async def test_snapshots_are_used_when_a_run_is_loaded(tmp_path, monkeypatch):
    from perdure.runtime.coordinator import loaded

    monkeypatch.setattr(loaded, "SNAPSHOT_EVERY", 10)
    loop = {"condition": "!output.done", "max_iterations": 100}
    definition = workflow(
        task("again", "count", args={"upto": 20}, loop=loop),
        {"id": "w", "type": "wait", "config": {"signal": "go"}, "dependencies": ["again"]},
        task("b", "echo", ["w"]),
    )
    async with running(tmp_path) as engine:
        await start(engine, definition)
        await until(engine, lambda state: state_of(state, "w") == "waiting")
        kept = await engine.journal.find_snapshot("r1")
        assert kept is not None
        assert kept.seq >= 10
    async with running(tmp_path) as engine:
        read = []
        original = engine.journal.read_events

        async def spy(run_id, after=0, limit=1000):
            read.append(after)
            return await original(run_id, after, limit)

        engine.journal.read_events = spy
        await ask(engine, "signal", name="go")
        assert read[0] >= kept.seq
        engine.journal.read_events = original
        assert (await ended(engine)).state is R.COMPLETED


@pytest.mark.parametrize("what", ["garbage", "nothing"])
async def test_a_snapshot_that_cannot_be_read_is_not_needed(tmp_path, monkeypatch, what):
    import sqlite3

    from perdure.runtime.coordinator import loaded

    monkeypatch.setattr(loaded, "SNAPSHOT_EVERY", 5)
    definition = workflow(
        *[task(f"n{number}") for number in range(10)],
        {"id": "w", "type": "wait", "config": {"signal": "go"}, "dependencies": [f"n{number}" for number in range(10)]},
    )
    async with running(tmp_path) as engine:
        await start(engine, definition)
        await until(engine, lambda state: state_of(state, "w") == "waiting")
    with sqlite3.connect(tmp_path / "perdure.db") as connection:
        changed = connection.execute("UPDATE snapshots SET body = ?", (b"x" if what == "garbage" else b"",)).rowcount
        assert changed == 1
    connection.close()
    async with running(tmp_path) as engine:
        assert not (await ask(engine, "signal", name="go")).refused
        assert (await ended(engine)).state is R.COMPLETED
