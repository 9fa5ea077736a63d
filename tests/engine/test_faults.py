"""Trouble with the journal: it fails, it answers late or not at all, it is full, it may only be read."""

from __future__ import annotations

import asyncio
import logging
import re
import sqlite3
from typing import Any

import pytest

from perdure.errors import StoreUnavailable
from perdure.journal import JournalReadOnly
from perdure.kernel.lifecycle import RunState
from tests.doubles.faults import Fault, FaultKind, FaultyJournal
from tests.engine import tasks
from tests.engine.helpers import (
    DEADLINE,
    check,
    compiled,
    crash,
    ended,
    opened,
    running,
    start,
    state_of,
    task,
    transform,
    until,
    until_true,
    use_journal,
    workflow,
)
from tests.engine.runner import Folder

pytestmark = pytest.mark.slow

R = RunState
CHILD = workflow(task("inner"), name="child")
SMALL = workflow(
    task("a"),
    task("b", "fail", ["a"], args={"times": 1}, retry={"max_attempts": 3, "backoff_ms": 1, "jitter": False}),
    {"id": "call", "type": "workflow", "config": {"workflow": "child"}, "dependencies": ["a"]},
    {"id": "nap", "type": "wait", "config": {"seconds": 0.005}, "dependencies": ["b", "call"]},
    transform("end", "{{ b.attempt }}", ["nap"]),
    outputs={"end": "{{ end }}"},
)
WRITES = ("append",)
READS = ("find_run", "read_events", "find_snapshot", "find_workflow", "next_timer", "list_due_timers",
         "incarnation", "read_notices", "read_commands")  # fmt: skip


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL)


async def run_with(path, plan, number_of_runs: int = 2) -> FaultyJournal:
    faulty: list[FaultyJournal] = []

    def wrap(journal):
        faulty.append(FaultyJournal(journal, plan))
        return faulty[0]

    engine = await opened(path, wrap=wrap)
    try:
        await engine.hold()
        real = engine.journal._journal
        for definition in (CHILD, SMALL):
            made = compiled(definition)
            from perdure.model import ir as irs

            await real.put_definition(made.ir.hash, "ir", irs.encode(made.ir))
            await real.register_workflow(made.ir.name, f"d{made.ir.hash}", ir_hash=made.ir.hash)
        ir = compiled(SMALL).ir
        engine.coordinator.library.add(ir, 1)
        await asyncio.gather(*(start(engine, ir, f"r{number}") for number in range(number_of_runs)))
        for number in range(number_of_runs):

            async def over(number=number):
                while (await real.get_run(f"r{number}")).row.ended_at is None:
                    engine.parts.check()
                    await asyncio.sleep(0.001)

            await asyncio.wait_for(over(), DEADLINE)
            found = await check(real, f"r{number}")
            assert found[-1].type == "run.completed"
            assert found[-1].outputs == {"end": 2}
            await check(real, (await real.list_runs()).items[0].run_id)
        await asyncio.wait_for(engine.coordinator.drained(), DEADLINE)
        await until_true(lambda: not engine.coordinator.memory.runs, "no run is in memory")
        assert len(engine.coordinator.publisher.dispatcher) == 0
    finally:
        await asyncio.wait_for(engine.close(0.5), DEADLINE)
    return faulty[0]


@pytest.mark.parametrize(
    "kind", [FaultKind.FAIL_BEFORE, FaultKind.FAIL_AFTER, FaultKind.TIME_OUT_APPLIED, FaultKind.CONFLICT]
)
async def test_one_fault_at_any_append_changes_nothing(tmp_path, kind):
    for number in range(1, 60):
        tasks.reset()
        folder = tmp_path / str(number)
        folder.mkdir()

        def plan(operation, n, number=number):
            return Fault(kind, 0.001) if operation == "append" and n == number else None

        faulty = await run_with(folder, plan)
        completed = {key for key, _ in tasks.seen}
        assert len(completed) == 2 * 3
        assert len(tasks.seen) == 2 * 4, "a handler ran again because the journal had trouble"
        if faulty.calls["append"] < number:
            assert number > 6
            return
    raise AssertionError("it never ran without a fault")


@pytest.mark.parametrize(
    "kind", [FaultKind.FAIL_BEFORE, FaultKind.FAIL_AFTER, FaultKind.TIME_OUT_APPLIED, FaultKind.CONFLICT]
)
@pytest.mark.parametrize("every", [2, 3])
async def test_a_fault_at_every_nth_append_changes_nothing(tmp_path, kind, every):
    def plan(operation, n):
        return Fault(kind, 0.001) if operation == "append" and n % every == 0 else None

    await run_with(tmp_path, plan, 5)


@pytest.mark.parametrize("operation", READS)
async def test_a_read_that_fails_is_tried_again(tmp_path, operation):
    """The first two, and every third."""

    def plan(asked, n):
        return Fault(FaultKind.FAIL_BEFORE) if asked == operation and (n <= 2 or n % 3 == 0) else None

    await run_with(tmp_path, plan)


async def test_a_conflict_while_many_tasks_wait_loses_none_of_them(tmp_path):
    nodes = [task(f"n{number}") for number in range(300)]

    def plan(operation, n):
        return Fault(FaultKind.CONFLICT) if operation == "append" and n % 4 == 3 else None

    async with running(tmp_path, concurrency=4, wrap=lambda journal: FaultyJournal(journal, plan)) as engine:
        await start(engine, workflow(*nodes))
        state = await ended(engine)
        assert state.state is R.COMPLETED
        assert len(tasks.seen) == 300
        await until_true(lambda: not engine.coordinator.memory.runs, "no run is in memory")
        assert len(engine.coordinator.publisher.dispatcher) == 0
        assert engine.coordinator.memory._pins == {}


async def test_a_conflict_in_a_long_chain_of_trivial_nodes(tmp_path):
    loop = {"condition": "loop.iteration < 1200", "max_iterations": 3000}
    definition = workflow(transform("again", "{{ loop.iteration }}", loop=loop), outputs={"at": "{{ again }}"})

    def plan(operation, n):
        return Fault(FaultKind.CONFLICT) if operation == "append" and n % 2 == 1 else None

    async with running(tmp_path, wrap=lambda journal: FaultyJournal(journal, plan)) as engine:
        await start(engine, definition)
        assert (await ended(engine)).outputs == {"at": 1200}


async def limit_pages(journal, pages: int) -> int:
    pragma = "PRAGMA max_page_count" + (f" = {pages}" if pages else "")
    return await journal._writer.run(lambda connection: connection.execute(pragma).fetchone()[0])


async def test_a_full_disk_stops_the_run_and_space_lets_it_go_on(tmp_path, caplog):
    definition = workflow(
        task("a", "gate", args={"name": "a"}),
        *[task(f"n{number}", "echo", ["a"], args={"value": "x" * 20_000}) for number in range(30)],
    )
    async with running(tmp_path) as engine:
        await start(engine, definition)
        pages = await engine.journal._writer.run(
            lambda connection: connection.execute("PRAGMA page_count").fetchone()[0]
        )
        await limit_pages(engine.journal, pages + 40)
        caplog.set_level(logging.WARNING)
        tasks.gate_of("a").set()
        await until_true(lambda: any("full" in record.getMessage() for record in caplog.records), "it is full")
        state = await engine.runs.state("r1")
        assert not state.terminal
        await check(engine.journal)  # nothing half-done
        await limit_pages(engine.journal, 10**6)
        state = await ended(engine)
        assert state.state is R.COMPLETED
        assert len(tasks.seen) == 31


async def test_a_journal_that_may_only_be_read_stops_the_run_and_the_next_start_lets_it_go_on(tmp_path, caplog):
    engine = await opened(tmp_path)
    await engine.hold()
    await start(engine, workflow(task("a", "gate", args={"name": "a"}), task("b", "echo", ["a"])))
    await until_true(lambda: tasks.seen, "a runs")
    # From here on SQLite refuses every write of this connection, as it does when the file may only be read.
    await engine.journal._writer.run(lambda connection: connection.execute("PRAGMA query_only = 1").fetchone())
    caplog.set_level(logging.WARNING)
    before = (await engine.journal.get_run("r1")).seq
    tasks.gate_of("a").set()
    await until_true(lambda: any("readonly" in record.getMessage() for record in caplog.records), "it says so")
    assert (await engine.journal.get_run("r1")).seq == before
    with pytest.raises(JournalReadOnly, match="rights of the file"):
        await engine.workflows.register(compiled(workflow(task("c"), name="other")))
    await crash(engine)
    async with running(tmp_path) as engine:
        state = await ended(engine)
        assert state.state is R.COMPLETED
        assert [key for key, _ in tasks.seen] == ["r1/a/do", "r1/a/do", "r1/b/do"]


async def test_a_full_disk_does_not_keep_an_engine_from_closing(tmp_path, monkeypatch):
    from perdure import engine as module

    monkeypatch.setattr(module, "_SETTLE_SECONDS", 0.1)
    engine = await opened(tmp_path)
    await engine.hold()
    await start(
        engine, workflow(task("a", "gate", args={"name": "a"}), task("b", "echo", ["a"], args={"value": "x" * 10**6}))
    )
    await until_true(lambda: tasks.seen, "a runs")
    pages = await engine.journal._writer.run(lambda connection: connection.execute("PRAGMA page_count").fetchone()[0])
    await limit_pages(engine.journal, pages)
    waiting = asyncio.create_task(start(engine, workflow(task("big", args={"value": "x" * 10**6})), "r2"))
    tasks.gate_of("a").set()
    await asyncio.sleep(0)
    await asyncio.wait_for(engine.close(0.1), 10)
    [outcome] = await asyncio.gather(waiting, return_exceptions=True)
    # It may also have been storing the definition, which ends with the blob store.
    assert isinstance(outcome, asyncio.CancelledError) or re.search(r"(?i)stopp|clos|full", str(outcome))
    assert isinstance(outcome, BaseException)
    tasks.reset()
    tasks.gate_of("a").set()
    async with running(tmp_path) as engine:
        assert (await ended(engine)).state is R.COMPLETED


def test_files_that_may_not_grow_stop_the_process_cleanly_and_the_next_one_goes_on(tmp_path):
    folder = Folder(tmp_path)
    wide = [task(f"n{number}", "echo", ["a"], args={"value": "x" * 8000}) for number in range(100)]
    folder.add("r1", workflow(task("a"), *wide))
    with folder.process(PERDURE_TEST_FILE_LIMIT=str(400_000)) as process:
        folder.wait(process, lambda: "journal:" in folder.errors() or process.poll() is not None, "it is full")
        process.terminate()
        process.wait(40)
        assert process.returncode != -11
    with folder.process() as process:
        assert process.wait(60) == 0, folder.errors()

    async def look():
        engine = await opened(tmp_path)
        found = await check(engine.journal)
        assert found[-1].type == "run.completed"
        await engine.close()

    asyncio.run(look())


async def test_a_database_that_may_only_be_read_is_refused_with_a_clear_error(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, workflow(task("a")))
        await ended(engine)
    connection = sqlite3.connect(tmp_path / "perdure.db")
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()

    async with running(tmp_path) as engine:
        from perdure.journals.sqlite import SqliteJournal

        reader = await SqliteJournal.open(tmp_path / "perdure.db", read_only=True)
        held = engine.journal
        use_journal(engine, reader)
        with pytest.raises(StoreUnavailable) as caught:
            await engine.workflows.register(compiled(workflow(task("b"), name="other")))
        assert isinstance(caught.value, JournalReadOnly)
        use_journal(engine, held)
        await reader.close()
        assert (await engine.runs.state("r1")).state is R.COMPLETED


async def test_another_incarnation_stops_the_engine(tmp_path):
    engine = await opened(tmp_path)
    await engine.hold()
    await start(engine, workflow(task("a", "gate", args={"name": "a"})))
    await until(engine, lambda state: state_of(state, "a") == "queued")
    await engine.journal.raise_incarnation()
    with pytest.raises(Exception, match="incarnation"):
        await asyncio.wait_for(start(engine, workflow(task("a")), "r2"), 10)
    await engine.close(0)
    tasks.reset()
    tasks.gate_of("a").set()
    async with running(tmp_path) as engine:
        assert (await ended(engine)).state is R.COMPLETED


class _SlowToSayWhichLife:
    """A journal that is away when its incarnation is asked for, and is restored before it answers."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.calls: list[str] = []
        self._failures = 2

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def incarnation(self) -> int:
        if self._failures:
            self._failures -= 1
            raise StoreUnavailable("away")
        number: int = await self._inner.incarnation()
        self.calls.append("incarnation")
        return number

    async def list_active_runs(self, *arguments: Any, **named: Any) -> Any:
        self.calls.append("list_active_runs")
        return await self._inner.list_active_runs(*arguments, **named)


async def test_what_others_left_is_read_when_the_incarnation_is_known(tmp_path):
    """Read before, the list may be of a database that is restored before the incarnation is learnt: nothing tells of it,
    and the runs that the restore brought back stand still."""
    journals: list[_SlowToSayWhichLife] = []

    def slow(journal: Any) -> Any:
        journals.append(_SlowToSayWhichLife(journal))
        return journals[0]

    async with running(tmp_path, wrap=slow):
        calls = journals[0].calls
    assert "list_active_runs" in calls
    assert calls.index("incarnation") < calls.index("list_active_runs")
