"""A full disk: the append is refused or unknown, nothing is half written, and with space it goes on."""

import asyncio
from pathlib import Path

import pytest

from tests.conformance.journal.commits import append, commit
from tests.journals.sqlite.children import child, line
from weft.journal import Accepted, JournalFull
from weft.journals.sqlite import SqliteJournal
from weft.journals.sqlite.writer import Writer


def limit_pages(writer: Writer, pages: int) -> None:
    assert writer._connection is not None
    writer._connection.execute(f"PRAGMA max_page_count = {pages}")


async def test_a_full_database_refuses_the_whole_append_and_goes_on_when_there_is_room(tmp_path):
    journal = await SqliteJournal.open(tmp_path / "weft.db")
    writer = journal._writer
    assert writer is not None
    await writer.run(lambda connection: connection.execute("PRAGMA max_page_count = 100").fetchone())
    seq = 0
    with pytest.raises(JournalFull, match="no space is left"):
        while True:
            large = commit("r1", seq, error=b"%06d" % seq * 3000)
            assert await append(journal, large) == Accepted(seq + 1)
            seq += 1
    assert 5 < seq < 100
    assert (await journal.get_run("r1")).seq == seq
    assert len(await journal.read_events("r1")) == seq
    await writer.run(lambda connection: connection.execute("PRAGMA max_page_count = 100000").fetchone())
    assert await append(journal, commit("r1", seq, error=b"%06d" % seq * 3000)) == Accepted(seq + 1)
    await journal.close()


def test_files_that_may_not_grow_lose_nothing_that_was_answered(tmp_path):
    path = tmp_path / "weft.db"
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
