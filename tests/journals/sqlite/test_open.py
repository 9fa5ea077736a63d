"""Opening: what cannot be used is refused with what, where, why and what to do."""

import asyncio
import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from perdure.errors import PerdureError, SchemaTooNew
from perdure.journal import (
    Accepted,
    JournalBusy,
    JournalCorrupt,
    JournalReadOnly,
    JournalUnavailable,
    RunFilter,
)
from perdure.journals.sqlite import SqliteJournal, schema
from tests.conformance.journal.commits import append, commit
from tests.journals.sqlite.children import child, line


async def make(path: Path, **options) -> None:
    journal = await SqliteJournal.open(path, **options)
    await append(journal, commit("r1", 0, 3))
    await journal.close()


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


async def refusal(path: Path, kind: type[PerdureError], **options) -> str:
    with pytest.raises(kind) as caught:
        await SqliteJournal.open(path, **options)
    assert caught.type is kind
    assert str(path) in str(caught.value)
    return str(caught.value)


async def test_a_file_newer_than_the_program_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "perdure.db"
    await make(path)
    change(path, f"PRAGMA user_version = {len(schema.migrations()) + 1}")
    before = path.read_bytes()
    for read_only in (False, True):
        message = await refusal(path, SchemaTooNew, read_only=read_only)
        assert "upgrade Perdure" in message
    assert path.read_bytes() == before


async def test_a_file_that_is_not_sqlite_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "perdure.db"
    path.write_bytes(b"these are my notes, please keep them\n" * 100)
    assert "not an SQLite file" in await refusal(path, JournalCorrupt)
    assert path.read_bytes() == b"these are my notes, please keep them\n" * 100


async def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "other.db"
    change(path, "CREATE TABLE theirs (x)")
    assert "not one of Perdure" in await refusal(path, JournalCorrupt)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]


async def test_a_missing_folder_is_named(tmp_path):
    path = tmp_path / "no" / "perdure.db"
    message = await refusal(path, JournalUnavailable)
    assert f"the folder {path.parent} does not exist" in message
    assert not path.parent.exists()


async def test_a_folder_is_no_file(tmp_path):
    assert "is a folder" in await refusal(tmp_path, JournalUnavailable)


async def test_a_missing_file_cannot_be_opened_for_reading_only(tmp_path):
    await refusal(tmp_path / "perdure.db", JournalUnavailable, read_only=True)
    assert list(tmp_path.iterdir()) == []


async def test_an_empty_file_becomes_a_journal(tmp_path):
    (tmp_path / "perdure.db").touch()
    await make(tmp_path / "perdure.db")


async def test_damage_is_reported_as_damage(tmp_path):
    path = tmp_path / "perdure.db"
    await make(path)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    with pytest.raises(JournalCorrupt, match="restore a backup"):
        await make(path)


async def test_the_number_of_partitions_is_that_of_the_file(tmp_path):
    await make(tmp_path / "perdure.db", partitions=16)
    journal = await SqliteJournal.open(tmp_path / "perdure.db", partitions=32)
    assert journal.partition_count == 16
    await journal.close()
    journal = await SqliteJournal.open(tmp_path / "perdure.db", read_only=True)
    assert journal.partition_count == 16
    await journal.close()


async def test_a_journal_opened_for_reading_refuses_to_write(tmp_path):
    await make(tmp_path / "perdure.db")
    journal = await SqliteJournal.open(tmp_path / "perdure.db", read_only=True)
    assert (await journal.get_run("r1")).seq == 3
    with pytest.raises(JournalReadOnly):
        await journal.append([commit("r2")])
    with pytest.raises(JournalReadOnly):
        await journal.hold()
    await journal.close()


@pytest.mark.slow
def test_a_read_only_file_says_so_and_can_still_be_read():
    # Not tmp_path: the child gives up its rights, and pytest's folders are closed to others.
    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / "perdure.db"
        asyncio.run(make(path))
        path.chmod(0o444)
        folder.chmod(0o555)
        with child("unprivileged", path) as process:
            assert line(process).startswith("journal_read_only journal ")
            assert line(process) == "read 3"
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


async def test_a_locked_database_is_busy_and_nothing_is_written(tmp_path):
    path = tmp_path / "perdure.db"
    journal = await SqliteJournal.open(path, busy_timeout_seconds=0.01)
    with closing(sqlite3.connect(path, isolation_level=None)) as rival:
        rival.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalBusy, match="try again"):
            await journal.append([commit("r1")])
        rival.execute("ROLLBACK")
    assert await journal.find_run("r1") is None
    assert await append(journal, commit("r1")) == Accepted(1)
    await journal.close()


async def test_a_new_file_that_stays_locked_is_busy(tmp_path):
    path = tmp_path / "perdure.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as rival:
        rival.execute("BEGIN EXCLUSIVE")
        await refusal(path, JournalBusy, busy_timeout_seconds=0.01)


async def test_odd_characters_in_a_path_are_part_of_the_name(tmp_path):
    path = tmp_path / "a ?mode=memory&x#y%41 ä.db"
    await make(path)
    assert path.exists()
    assert [name for name in os.listdir(tmp_path) if not name.startswith("a ?mode=memory&x#y%41 ä.db")] == []


async def test_a_table_that_is_missing_is_damage_not_the_callers_mistake(tmp_path):
    path = tmp_path / "perdure.db"
    await make(path)
    change(path, "DROP TABLE events")
    journal = await SqliteJournal.open(path)
    with pytest.raises(JournalCorrupt):
        await journal.append([commit("r2")])
    with pytest.raises(JournalCorrupt):
        await journal.read_events("r1")
    await journal.close()


async def test_tags_that_an_earlier_version_writes_into_a_migrated_file_are_found_by_tenant(tmp_path):
    """It had the file open when another process migrated it."""
    journal = await SqliteJournal.open(tmp_path / "perdure.db")
    await append(journal, commit("r1", tenant="acme"))
    change(
        tmp_path / "perdure.db",
        "INSERT INTO run_tags (name, value, created_at, run_key) SELECT 'team', 'red', created_at, run_key FROM runs",
    )
    found = await journal.list_runs(RunFilter(tenant="acme", tag=("team", "red")))
    assert [one.run_id for one in found.items] == ["r1"]
    await journal.close()
