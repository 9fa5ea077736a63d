"""A file that tests find made is the one that migrating makes."""

import sqlite3

import pytest

from perdure.journal import JournalCorrupt
from perdure.journals.sqlite import schema
from perdure.journals.sqlite.connection import Options, connect_writer
from tests import founding

PRAGMAS = ("user_version", "application_id", "journal_mode", "page_size", "encoding", "auto_vacuum", "foreign_keys")


def everything(connection):
    return {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in PRAGMAS}, list(connection.iterdump())


def made_by(how, path, partitions=7):
    connection = connect_writer(Options(path=path, synchronous="OFF", busy_timeout_seconds=1, read_only=False))
    try:
        how(connection, path, partitions)
        assert not connection.in_transaction
        return everything(connection)
    finally:
        connection.close()


def test_a_copy_is_what_migrating_makes(tmp_path):
    assert schema.migrate is founding.found
    migrated = made_by(founding.migrate, tmp_path / "a.db")
    assert migrated[0]["user_version"] == len(schema.migrations())
    assert made_by(founding.found, tmp_path / "b.db") == migrated
    assert made_by(founding.migrate, tmp_path / "b.db") == migrated  # nothing is left to do


def test_a_file_that_has_anything_in_it_is_no_new_one(tmp_path):
    assert made_by(founding.found, tmp_path / "a.db", 7) == made_by(founding.found, tmp_path / "a.db", 8)
    with sqlite3.connect(tmp_path / "b.db") as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    with pytest.raises(JournalCorrupt):
        made_by(founding.found, tmp_path / "b.db")
