"""A run that cannot be understood is left alone; when that happens too often, the engine stops and says so."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import sqlite3
from types import SimpleNamespace
from typing import Any

import pytest

from perdure.journal import JournalCorrupt, RunFilter
from perdure.kernel.lifecycle import RunState
from perdure.runtime.coordinator import loaded
from perdure.runtime.coordinator.requests import Request
from perdure.runtime.parts import EngineStopped
from tests.doubles.fake_clock import FakeClock
from tests.doubles.memory_journal import MemoryJournal, Store
from tests.engine import tasks
from tests.engine.helpers import (
    DEADLINE,
    ask,
    check,
    compiled,
    crash,
    ended,
    opened,
    running,
    start,
    state_of,
    task,
    until,
    until_true,
    workflow,
)

R = RunState
WAITING = workflow(
    task("a"), {"id": "w", "type": "wait", "config": {"signal": "go"}, "dependencies": ["a"]}, task("b", "echo", ["w"])
)


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL)


def corrupt(path, run_ids, body: bytes = b"\x00garbage", first: int = 1) -> None:
    connection = sqlite3.connect(path / "perdure.db")
    with connection:
        for run_id in run_ids:
            changed = connection.execute(
                "UPDATE events SET body = ? WHERE seq = ? AND run_key = (SELECT run_key FROM runs WHERE run_id = ?)",
                (body, first, run_id),
            ).rowcount
            assert changed == 1
    connection.close()


async def prepare(path, number, definition=WAITING):
    async with running(path) as engine:
        for one in range(number):
            await start(engine, definition, f"r{one}")
        for one in range(number):
            await until(engine, lambda state: state_of(state, "w") == "waiting", f"r{one}")


@pytest.mark.slow
async def test_one_corrupt_run_of_twenty_is_quarantined_and_the_others_complete(tmp_path):
    await prepare(tmp_path, 20)
    corrupt(tmp_path, ["r7"], first=2)
    async with running(tmp_path) as engine:
        replies = await asyncio.gather(*(ask(engine, "signal", f"r{one}", name="go") for one in range(20)))
        assert [reply.code for reply in replies if reply.refused] == ["quarantined"]
        for one in range(20):
            if one != 7:
                assert (await ended(engine, f"r{one}")).state is R.COMPLETED
        record = await engine.journal.get_run("r7")
        assert record.quarantined
        assert [one.run_id for one in (await engine.journal.list_runs(RunFilter(quarantined=True))).items] == ["r7"]
        assert (await ask(engine, "cancel", "r7")).code == "quarantined"
        assert "r7" not in engine.coordinator.memory.runs
    async with running(tmp_path) as engine:
        assert (await ask(engine, "signal", "r7", name="go")).code == "quarantined"
        assert (await engine.journal.get_run("r7")).quarantined == record.quarantined


def damage(path, run_id: str, table: str) -> None:
    """Break what the database file says of a run in a table: the page on which its large value goes on names a next page
    that is not there."""
    file = path / "perdure.db"
    whole, before = file.read_bytes(), find_readable(file)
    size = int.from_bytes(whole[16:18], "big")
    for found in re.finditer(rb"<%s>x+" % run_id.encode(), whole):  # also where older snapshots were
        rest = int.from_bytes(whole[found.end() : found.end() + 4], "big")
        at = (rest - 1) * size
        if 0 < at < len(whole):
            file.write_bytes(whole[:at] + b"\xff\xff\xff\xf0" + whole[at + 4 :])
            if find_readable(file) == before - {(run_id, table)} != before:
                return
    raise AssertionError(f"nothing of {run_id} goes on elsewhere in {table}")


def find_readable(file) -> set[tuple[str, str]]:
    """Which runs can be read, and in which tables."""
    found = set()
    connection = sqlite3.connect(file)
    for run_key, run_id in connection.execute("SELECT run_key, run_id FROM runs").fetchall():
        for table in ("events", "snapshots"):
            try:
                if connection.execute(f"SELECT body FROM {table} WHERE run_key = ?", (run_key,)).fetchall():
                    found.add((run_id, table))
            except sqlite3.DatabaseError:
                continue
        with contextlib.suppress(sqlite3.DatabaseError):
            connection.execute("SELECT * FROM runs WHERE run_key = ?", (run_key,)).fetchall()
            found.add((run_id, "runs"))
    connection.close()
    return found


async def prepare_large(path, number: int, monkeypatch) -> None:
    monkeypatch.setattr(loaded, "SNAPSHOT_EVERY", 1)
    async with running(path) as engine:
        ir, _ = await engine.workflows.register(compiled(WAITING))
        for one in range(number):
            inputs = {"text": f"<r{one}>" + "x" * 20_000}
            await engine.runs.request(Request(kind="start", run_id=f"r{one}", ir=ir.hash, inputs=inputs))
        for one in range(number):
            await until(engine, lambda state: state_of(state, "w") == "waiting", f"r{one}")


@pytest.mark.parametrize("table", ["events", "snapshots"])
async def test_what_a_damaged_database_lost_of_one_run_keeps_no_other_from_going_on(tmp_path, monkeypatch, table):
    """It was read again and again for ever, and whoever asked for it was not answered."""
    await prepare_large(tmp_path, 5, monkeypatch)
    damage(tmp_path, "r2", "snapshots")
    if table == "events":
        damage(tmp_path, "r2", "events")
    async with running(tmp_path) as engine:
        asking = asyncio.gather(*(ask(engine, "signal", f"r{one}", name="go") for one in range(5)))
        replies = await asyncio.wait_for(asking, 30)
        lost = [2] if table == "events" else []
        assert [one for one, reply in enumerate(replies) if reply.code == "quarantined"] == lost
        for one in range(5):
            if one not in lost:
                assert (await ended(engine, f"r{one}")).state is R.COMPLETED
        record = await engine.journal.get_run("r2")
        assert ("its events cannot be read" in (record.quarantined or "")) is bool(lost)


async def test_a_run_whose_row_is_damaged_is_named_once_and_answered(tmp_path, caplog):
    """It was tried again for ever: the mark of a quarantine would stand in that row."""
    async with running(tmp_path) as engine:
        ir, _ = await engine.workflows.register(compiled(WAITING))
        for one in range(3):
            tags = {"t": f"<r{one}>" + "x" * 20_000}
            await engine.runs.request(Request(kind="start", run_id=f"r{one}", ir=ir.hash, tags=tags))
        for one in range(3):
            await until(engine, lambda state: state_of(state, "w") == "waiting", f"r{one}")
    damage(tmp_path, "r1", "runs")
    caplog.set_level(logging.WARNING)
    async with running(tmp_path) as engine:
        for _ in range(3):
            reply = await asyncio.wait_for(ask(engine, "signal", "r1", name="go"), DEADLINE)
            assert (reply.code, "its row cannot be read" in reply.message) == ("quarantined", True)
        for one in (0, 2):
            await ask(engine, "signal", f"r{one}", name="go")
            assert (await ended(engine, f"r{one}")).state is R.COMPLETED
    said = [one for one in caplog.records if "r1" in one.getMessage()]
    assert [one.getMessage().partition(":")[0] for one in said] == [
        "run r1 is quarantined",
        "run r1 cannot be marked as quarantined",
    ]


async def test_a_run_is_not_blamed_for_a_database_of_which_nothing_can_be_read(tmp_path) -> None:
    clock = FakeClock()
    journal: Any = MemoryJournal(Store(4), clock=clock)

    async def fail(*about: Any) -> Any:
        raise JournalCorrupt("it is no database")

    journal.read_events = journal.incarnation = fail
    record: Any = SimpleNamespace(run_id="r", seq=3)
    with pytest.raises(JournalCorrupt):
        await loaded.load_from(journal, fail, record, None)


async def test_events_that_are_missing_are_noticed(tmp_path):
    await prepare(tmp_path, 2)
    connection = sqlite3.connect(tmp_path / "perdure.db")
    with connection:
        connection.execute(
            "DELETE FROM events WHERE seq > 2 AND run_key = (SELECT run_key FROM runs WHERE run_id = 'r0')"
        )
    connection.close()
    async with running(tmp_path) as engine:
        reply = await asyncio.wait_for(ask(engine, "signal", "r0", name="go"), 10)
        assert reply.code == "quarantined"
        await ask(engine, "signal", "r1", name="go")
        assert (await ended(engine, "r1")).state is R.COMPLETED


@pytest.mark.slow
async def test_too_many_quarantines_stop_the_engine_and_nobody_waits_for_ever(tmp_path):
    await prepare(tmp_path, 20)
    corrupt(tmp_path, [f"r{one}" for one in range(15)], first=2)
    engine = await opened(tmp_path)
    await engine.hold()
    results = await asyncio.wait_for(
        asyncio.gather(*(ask(engine, "signal", f"r{one}", name="go") for one in range(15)), return_exceptions=True), 20
    )
    stopped = [one for one in results if isinstance(one, EngineStopped)]
    refused = [one for one in results if not isinstance(one, BaseException)]
    assert len(stopped) + len(refused) == 15
    assert stopped
    assert "quarantine" in str(stopped[0]).lower()
    assert {one.code for one in refused} <= {"quarantined"}
    with pytest.raises(EngineStopped):
        await ask(engine, "signal", "r19", name="go")
    with pytest.raises(EngineStopped):
        await asyncio.wait_for(anext(aiter(engine.runs.follow("r19", 10**6))), 10)
    marked = (await engine.journal.list_runs(RunFilter(quarantined=True))).items
    assert len(marked) == 10, "a bad release must not quarantine everything"
    await asyncio.wait_for(engine.close(), 10)
    async with running(tmp_path) as engine:
        await ask(engine, "signal", "r19", name="go")
        assert (await ended(engine, "r19")).state is R.COMPLETED


@pytest.mark.slow
async def test_what_one_tenant_has_written_stops_no_other_tenant(tmp_path):
    async with running(tmp_path) as engine:
        for one in range(15):
            await start(engine, WAITING, f"r{one}", tenant="bad" if one else "default")
        for one in range(15):
            await until(engine, lambda state: state_of(state, "w") == "waiting", f"r{one}")
    corrupt(tmp_path, [f"r{one}" for one in range(1, 15)], first=2)
    async with running(tmp_path) as engine:
        await ask(engine, "signal", "r0", name="other")
        for one in range(1, 15):
            assert (await ask(engine, "signal", f"r{one}", name="go")).code == "quarantined"
        await ask(engine, "signal", "r0", name="go")
        assert (await ended(engine, "r0")).state is R.COMPLETED


async def test_a_follower_is_told_that_the_run_is_quarantined(tmp_path):
    await prepare(tmp_path, 1)
    corrupt(tmp_path, ["r0"], first=2)
    async with running(tmp_path):
        follower = await opened(tmp_path)
        assert (await ask(follower, "signal", "r0", name="go")).code == "quarantined"
        await follower.close()


async def test_a_corrupt_run_with_work_out_gives_its_window_back(tmp_path):
    engine = await opened(tmp_path, concurrency=2)
    await engine.hold()
    nodes = [task(f"n{one}", "gate", args={"name": "x"}) for one in range(10)]
    await start(engine, workflow(*nodes), "r0")
    await until_true(lambda: len(tasks.seen) == 2, "two run")
    loaded = engine.coordinator.memory.runs["r0"]
    for key in list(loaded.state.activations):
        del loaded.state.activations[key]
    tasks.gate_of("x").set()
    assert (await ask(engine, "cancel", "r0")).code in ("quarantined", "not_found", "")
    for one in range(5):
        await start(engine, workflow(task("a")), f"good{one}")
        assert (await ended(engine, f"good{one}")).state is R.COMPLETED
    assert (await engine.journal.get_run("r0")).quarantined
    assert len(engine.coordinator.publisher.dispatcher) == 0
    await engine.close(0.5)


async def test_a_parent_whose_child_is_quarantined_waits_and_the_engine_starts(tmp_path):
    child = {**WAITING, "name": "child"}
    parent = workflow({"id": "call", "type": "workflow", "config": {"workflow": "child"}}, name="parent")
    engine = await opened(tmp_path)
    await engine.hold()
    await engine.workflows.register(compiled(child))
    await start(engine, parent)
    state = await until(engine, lambda state: state_of(state, "call") == "waiting")
    name = state.find("call").child
    await until_true(lambda: engine.journal.find_run(name), "the child is there")
    await until(engine, lambda state: state_of(state, "w") == "waiting", name)
    await crash(engine)
    corrupt(tmp_path, [name], first=2)
    async with running(tmp_path) as engine:
        assert (await ask(engine, "signal", name, name="go")).code == "quarantined"
        other = await start(engine, workflow(task("x"), name="other"), "other")
        assert not other.refused
        assert (await ended(engine, "other")).state is R.COMPLETED
        assert state_of(await engine.runs.state("r1"), "call") == "waiting"
    async with running(tmp_path) as engine:  # and again, with the child marked
        assert not (await start(engine, workflow(task("x"), name="other"), "other2")).refused
        assert (await ended(engine, "other2")).state is R.COMPLETED


async def test_a_run_whose_start_cannot_be_handled_is_refused_and_hurts_nobody(tmp_path, monkeypatch):
    from perdure.runtime.coordinator.tasks.renderer import Renderer

    async with running(tmp_path) as engine:
        original = Renderer.answer

        def broken(self, loaded, effect, clock):
            if loaded.state.run_id == "bad":
                raise KeyError("a bug")
            return original(self, loaded, effect, clock)

        monkeypatch.setattr(Renderer, "answer", broken)
        definition = workflow({"id": "in", "type": "input"}, task("a", "echo", ["in"]))
        assert (await start(engine, definition, "bad")).code == "quarantined"
        assert not (await start(engine, definition, "good")).refused
        assert (await ended(engine, "good")).state is R.COMPLETED
        assert await engine.journal.find_run("bad") is None


async def test_a_task_that_cannot_be_made_quarantines_its_run_alone(tmp_path, monkeypatch):
    from perdure.runtime.coordinator.tasks.renderer import Renderer

    async with running(tmp_path) as engine:
        original = Renderer.task

        def broken(self, loaded, address, incarnation):
            if address.run_id == "bad":
                raise RecursionError("a bug")
            return original(self, loaded, address, incarnation)

        monkeypatch.setattr(Renderer, "task", broken)
        await start(engine, workflow(task("a")), "bad")
        await start(engine, workflow(task("a")), "good")
        assert (await ended(engine, "good")).state is R.COMPLETED
        assert (await engine.journal.get_run("bad")).quarantined
        assert len(engine.coordinator.publisher.dispatcher) == 0


async def test_a_listener_that_fails_stops_nothing(tmp_path):
    async with running(tmp_path) as engine:

        def fail(state, events):
            raise ValueError("not my day")

        stop = engine.listen(fail)
        await start(engine, workflow(task("a")))
        assert (await ended(engine)).state is R.COMPLETED
        stop()
        await check(engine.journal)
