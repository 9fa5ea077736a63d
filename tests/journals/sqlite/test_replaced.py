"""Files put back, or taken away, under a process that has the journal open: nothing more is answered as written."""

import os
import shutil
import sqlite3
from contextlib import closing

import pytest

from perdure.journal import JournalReplaced
from perdure.journals.sqlite import SqliteJournal
from tests.conformance.journal.commits import append, commit


def put_back(path):
    """As `tar x`, `rsync` and `mv` do: another file under the same name."""
    copy = path.with_suffix(".copy")
    shutil.copy(path, copy)
    copy.replace(path)


CHANGES = {
    "another file": put_back,
    "deleted": os.unlink,
    "moved away with its folder": lambda path: path.parent.rename(path.parent.with_suffix(".old")),
}


@pytest.mark.parametrize("how", CHANGES)
async def test_what_is_written_after_other_files_were_put_there_is_refused(tmp_path, how):
    path = tmp_path / "folder" / "perdure.db"
    path.parent.mkdir()
    journal = await SqliteJournal.open(path)
    try:
        await append(journal, commit("r1", 0, 3))
        CHANGES[how](path)
        for name in ("r2", "r3"):
            with pytest.raises(JournalReplaced, match="perdure migrate --restored"):
                await append(journal, commit(name, 0, 3))
        with pytest.raises(JournalReplaced):
            await journal.put_command("r1", b"{}")
        with pytest.raises(JournalReplaced):
            await journal.incarnation()  # what a process asks for that has nothing to write
    finally:
        await journal.close()


async def test_files_that_were_put_back_are_left_as_they_are(tmp_path):
    path = tmp_path / "perdure.db"
    journal = await SqliteJournal.open(path)
    await append(journal, commit("r1", 0, 3))
    await journal.close()
    backup = path.read_bytes()
    journal = await SqliteJournal.open(path)
    await append(journal, commit("r2", 0, 3))
    for beside in ("", "-wal", "-shm"):
        path.with_name(path.name + beside).unlink(missing_ok=True)
    path.write_bytes(backup)
    with pytest.raises(JournalReplaced):
        await append(journal, commit("r3", 0, 3))
    await journal.close()
    assert path.read_bytes() == backup
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT run_id FROM runs").fetchall() == [("r1",)]


async def test_writing_into_the_same_file_is_no_replacement(tmp_path):
    path = tmp_path / "perdure.db"
    journal = await SqliteJournal.open(path)
    await append(journal, commit("r1", 0, 3))
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        other.execute("VACUUM")
    await append(journal, commit("r2", 0, 3))
    await journal.close()
