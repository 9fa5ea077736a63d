"""The writer thread: group commit, a bounded queue, errors that reach the right callers, unknown outcomes."""

import asyncio
import sqlite3
import threading

import pytest

from perdure.journal import (
    Accepted,
    Conflict,
    InvalidCommit,
    JournalBusy,
    JournalFull,
    OutcomeUnknown,
    RunRow,
)
from perdure.journals.sqlite import SqliteJournal, writer
from tests.conformance.journal.commits import append, commit, event


class Trouble(sqlite3.Connection):
    """A connection that counts its commits and, when told, fails at one: before it is done or after."""

    before: int | None = None
    after: int | None = None
    commits = 0

    def execute(self, sql, *arguments):
        if sql != "COMMIT":
            return super().execute(sql, *arguments)
        Trouble.commits += 1
        if Trouble.before is not None:
            raise failure(Trouble.before)
        result = super().execute(sql, *arguments)
        if Trouble.after is not None:
            raise failure(Trouble.after)
        return result


def failure(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("injected")
    error.sqlite_errorcode = code
    return error


@pytest.fixture
async def journal(tmp_path, monkeypatch):
    original = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **named: original(*given, factory=Trouble, **named))
    monkeypatch.setattr(Trouble, "before", None)
    monkeypatch.setattr(Trouble, "after", None)
    journal = await SqliteJournal.open(tmp_path / "perdure.db")
    monkeypatch.setattr(Trouble, "commits", 0)
    yield journal
    await journal.close()


class Gate:
    """Stops the writer thread inside a transaction until it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, connection: sqlite3.Connection) -> None:
        self.reached.set()
        assert self.opened.wait(60)


async def stopped(journal, group) -> Gate:
    gate = Gate()
    group.create_task(journal._writer.run(gate))
    await asyncio.to_thread(gate.reached.wait, 60)
    return gate


async def test_everything_that_waits_goes_into_one_transaction(journal):
    async with asyncio.TaskGroup() as group:
        gate = await stopped(journal, group)
        waiting = [group.create_task(append(journal, commit(f"r{number}"))) for number in range(100)]
        await asyncio.sleep(0)  # each has handed its job over
        gate.opened.set()
    assert [task.result() for task in waiting] == [Accepted(1)] * 100
    assert Trouble.commits == 2


async def test_appends_and_other_writes_share_a_transaction_in_the_order_they_came(journal):
    async with asyncio.TaskGroup() as group:
        gate = await stopped(journal, group)
        first = group.create_task(append(journal, commit("r1", 0, 2, timers_set=(("t", 1.0),))))
        group.create_task(journal.mark_quarantined("r1", "why"))
        second = group.create_task(append(journal, commit("r1", 2, 1)))
        group.create_task(journal.put_command("r1", b"?"))
        third = group.create_task(append(journal, commit("r1", 3, 1), commit("r2")))
        await asyncio.sleep(0)
        gate.opened.set()
    assert [first.result(), second.result()] == [Accepted(2), Accepted(3)]
    assert third.result() == [Accepted(4), Accepted(1)]
    assert Trouble.commits == 2
    run = await journal.get_run("r1")
    assert (run.seq, run.quarantined) == (4, "why")
    assert [event.seq for event in await journal.read_events("r1")] == [1, 2, 3, 4]
    await journal.unquarantine("r1")
    assert await journal.next_timer() == 1.0


async def test_the_queue_is_bounded_and_callers_wait_for_a_place(tmp_path):
    journal = await SqliteJournal.open(tmp_path / "small.db", queue_limit=4)
    async with asyncio.TaskGroup() as group:
        gate = await stopped(journal, group)
        tasks = [group.create_task(append(journal, commit(f"r{number}"))) for number in range(20)]
        await asyncio.sleep(0)
        assert journal._writer is not None
        assert journal._writer._queue.qsize() == 3  # and one is at work
        gate.opened.set()
    assert [task.result() for task in tasks] == [Accepted(1)] * 20
    await journal.close()


async def test_a_commit_that_cannot_be_stored_fails_alone(journal):
    bad = commit("bad", events=(event(1),), counter=2**70)
    worse = commit("worse", tags=b"not json")
    odd = commit("odd", state="\ud800")
    async with asyncio.TaskGroup() as group:
        gate = await stopped(journal, group)
        good = [group.create_task(append(journal, commit(f"r{number}"))) for number in range(3)]
        failing = [asyncio.gather(journal.append([each]), return_exceptions=True) for each in (bad, worse, odd)]
        good += [group.create_task(append(journal, commit(f"s{number}"))) for number in range(3)]
        await asyncio.sleep(0)
        gate.opened.set()
    assert [task.result() for task in good] == [Accepted(1)] * 6
    for each in failing:
        (error,) = await each
        assert isinstance(error, InvalidCommit)
    assert {run.run_id for run in await journal.list_active_runs()} == {"r0", "r1", "r2", "s0", "s1", "s2"}


async def test_a_caller_that_is_cancelled_finds_its_commit_or_appends_it_again(journal):
    async with asyncio.TaskGroup() as group:
        gate = await stopped(journal, group)
        task = asyncio.gather(append(journal, commit("r1")))
        await asyncio.sleep(0)
        task.cancel()
        gate.opened.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await append(journal, commit("r1")) == Accepted(1)
    assert len(await journal.read_events("r1")) == 1


async def test_an_error_while_committing_is_an_unknown_outcome_and_the_commit_id_settles_it(journal, monkeypatch):
    monkeypatch.setattr(Trouble, "after", sqlite3.SQLITE_IOERR_FSYNC)
    with pytest.raises(OutcomeUnknown, match="read back the commit id"):
        await journal.append([commit("applied")])
    monkeypatch.setattr(Trouble, "after", None)
    monkeypatch.setattr(Trouble, "before", sqlite3.SQLITE_IOERR_WRITE)
    with pytest.raises(OutcomeUnknown):
        await journal.append([commit("lost")])
    monkeypatch.setattr(Trouble, "before", None)
    assert (await journal.find_commit("applied")).commit_id == "applied@0"
    assert await journal.find_commit("lost") is None
    assert await append(journal, commit("applied"), commit("lost")) == [Accepted(1), Accepted(1)]
    assert len(await journal.read_events("applied")) == 1


async def test_a_commit_that_could_not_get_the_lock_is_refused_not_unknown(journal, monkeypatch):
    monkeypatch.setattr(Trouble, "before", sqlite3.SQLITE_BUSY)
    with pytest.raises(JournalBusy):
        await journal.append([commit("r1")])
    monkeypatch.setattr(Trouble, "before", None)
    assert await journal.find_run("r1") is None
    assert await append(journal, commit("r1")) == Accepted(1)


async def test_when_the_database_fails_everyone_in_the_transaction_hears_it(journal, monkeypatch):
    gate = Gate()
    first = asyncio.gather(journal._writer.run(gate), return_exceptions=True)
    await asyncio.to_thread(gate.reached.wait, 60)
    tasks = [asyncio.gather(journal.append([commit(f"r{number}")]), return_exceptions=True) for number in range(5)]
    await asyncio.sleep(0)
    monkeypatch.setattr(Trouble, "before", sqlite3.SQLITE_FULL)
    gate.opened.set()
    errors = [(await task)[0] for task in (first, *tasks)]
    assert [type(error) for error in errors] == [JournalFull] * 6
    assert Trouble.commits == 2
    monkeypatch.setattr(Trouble, "before", None)
    assert await journal.list_active_runs() == []
    assert await append(journal, commit("r1")) == Accepted(1)


async def test_closing_waits_for_what_is_queued(tmp_path):
    journal = await SqliteJournal.open(tmp_path / "closing.db")
    async with asyncio.TaskGroup() as group:
        gate = await stopped(journal, group)
        task = group.create_task(append(journal, commit("r1")))
        await asyncio.sleep(0)
        closing = group.create_task(journal.close())
        await asyncio.sleep(0)
        assert not closing.done()
        gate.opened.set()
    assert task.result() == Accepted(1)


async def test_a_transaction_takes_a_bounded_number_of_jobs(journal, monkeypatch):
    monkeypatch.setattr(writer, "MAX_JOBS", 10)
    async with asyncio.TaskGroup() as group:
        gate = await stopped(journal, group)
        tasks = [group.create_task(append(journal, commit(f"r{number}"))) for number in range(35)]
        await asyncio.sleep(0)
        gate.opened.set()
    assert [task.result() for task in tasks] == [Accepted(1)] * 35
    assert Trouble.commits == 1 + 4


def test_the_row_of_a_commit_is_what_the_appender_compares():
    # A field that may change and is not compared would be written only by chance.
    fixed = {"workflow", "workflow_version", "partition", "tenant", "tags", "created_at", "parent"}
    compared = {"state", "busy", "ir", "generation", "started_at", "ended_at", "error"}
    assert fixed | compared | {"counter"} == set(RunRow.__struct_fields__)


async def test_what_another_journal_wrote_is_seen_by_the_next_append(tmp_path):
    """The rows of runs are remembered between transactions, and no longer than they are true."""
    mine = await SqliteJournal.open(tmp_path / "perdure.db")
    other = await SqliteJournal.open(tmp_path / "perdure.db")
    assert await append(mine, commit(seq=0)) == Accepted(1)
    assert await append(mine, commit(seq=1)) == Accepted(2)
    assert await append(other, commit(seq=2, commit_id="theirs", state="paused")) == Accepted(3)
    assert await append(mine, commit(seq=2, commit_id="mine")) == Conflict(3, "theirs")
    assert await append(mine, commit(seq=3)) == Accepted(4)
    record = await other.find_run("r1")
    assert record is not None
    assert (record.seq, record.row.state) == (4, "running")
    await mine.close()
    await other.close()


async def test_a_transaction_that_fails_leaves_nothing_to_remember(journal, monkeypatch):
    assert await append(journal, commit(seq=0)) == Accepted(1)
    monkeypatch.setattr(Trouble, "before", sqlite3.SQLITE_FULL)
    with pytest.raises(JournalFull):
        await append(journal, commit(seq=1, commit_id="lost"))
    monkeypatch.setattr(Trouble, "before", None)
    assert await append(journal, commit(seq=1, commit_id="again")) == Accepted(2)
