"""A full disk: the append is refused or unknown, nothing is half written, and with space it goes on."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from perdure.journal import Accepted, Commit, JournalFull
from perdure.journals.sqlite import SqliteJournal
from tests.conformance.journal.commits import append, commit, event
from tests.journals.sqlite.children import child, line


def large(seq: int) -> Commit:
    return commit("r1", seq, events=(event(seq + 1, b"x" * 10_000),))


async def limit_pages(journal: SqliteJournal, more: int) -> None:
    """Let the file grow by so many pages more."""
    assert journal._writer is not None

    def limit(connection: sqlite3.Connection) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0] + more
        connection.execute(f"PRAGMA max_page_count = {pages}").fetchone()

    await journal._writer.run(limit)


async def append_until_refused(journal: SqliteJournal) -> int:
    for seq in range(1000):
        try:
            assert await append(journal, large(seq)) == Accepted(seq + 1)
        except JournalFull:
            return seq
    raise AssertionError("it never got full")


async def test_a_full_database_refuses_the_whole_append_and_goes_on_when_there_is_room(tmp_path):
    journal = await SqliteJournal.open(tmp_path / "perdure.db")
    await limit_pages(journal, 40)
    seq = await append_until_refused(journal)
    assert seq > 5
    assert (await journal.get_run("r1")).seq == seq
    assert len(await journal.read_events("r1")) == seq
    await limit_pages(journal, 100_000)
    assert await append(journal, large(seq)) == Accepted(seq + 1)
    await journal.close()


@pytest.mark.slow
def test_files_that_may_not_grow_lose_nothing_that_was_answered(tmp_path):
    path = tmp_path / "perdure.db"
    with child("fill", path) as process:
        code, answered = line(process).split()
        assert code in {"journal_full", "journal_unavailable", "outcome_unknown"}
        assert int(line(process).removeprefix("read ")) in {int(answered), int(answered) + 5}
        assert line(process) == f"done {int(answered) + 15}"
        assert process.wait() == 0
    assert asyncio.run(count(path)) == int(answered) + 15


async def count(path: Path) -> int:
    journal = await SqliteJournal.open(path)
    events = await journal.read_events("r1", limit=10**6)
    await journal.close()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return len(events)
