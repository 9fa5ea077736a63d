"""Brings a file to the schema that this program knows, under SQLite's own write lock.

`PRAGMA user_version` is the number of the last migration, `application_id` says that the file is Perdure's. A file that
is newer than the program is refused; a file of another program is left alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path

from perdure.errors import SchemaTooNew
from perdure.journal import JournalCorrupt, JournalUnavailable

APPLICATION_ID = 0x50445552  # "PDUR"


@cache
def migrations() -> tuple[tuple[int, str], ...]:
    """(number, script) in order, numbered from 1 without a gap."""
    folder = resources.files("perdure.journals.sqlite") / "migrations"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    numbered = tuple((int(file.name[:4]), file.read_text(encoding="utf-8")) for file in files)
    assert [number for number, _ in numbered] == list(range(1, len(numbered) + 1)), "migrations have a gap"
    return numbered


def migrate(connection: sqlite3.Connection, path: Path, partitions: int) -> None:
    """Apply the missing migrations, if any."""
    if _version(connection, path) == len(migrations()):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked again: another process may have migrated while this one waited for the lock.
        version = _version(connection, path)
        for number, script in migrations()[version:]:
            for statement in _statements(script):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        if version == 0:
            _found(connection, partitions)
        # Crash here: the file is as it was before; the next start migrates it.
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse any schema but the one this program knows, for connections that may not migrate."""
    version = _version(connection, path)
    if version < len(migrations()):
        raise JournalUnavailable(
            f"journal {path} has schema {version}, this program needs {len(migrations())}; open it once for writing"
        )


def partition_count(connection: sqlite3.Connection) -> int:
    count: int = connection.execute("SELECT value FROM meta WHERE name = 'partitions'").fetchone()[0]
    return count


def _version(connection: sqlite3.Connection, path: Path) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    owner: int = connection.execute("PRAGMA application_id").fetchone()[0]
    if owner != APPLICATION_ID and (version or connection.execute("SELECT 1 FROM sqlite_master").fetchone()):
        raise JournalCorrupt(f"journal {path} is an SQLite database, but not one of Perdure; choose another path")
    if version > len(migrations()):
        raise SchemaTooNew(
            f"journal {path} has schema {version}, this program knows {len(migrations())}: "
            "a later version of Perdure made it; upgrade Perdure, or use another file"
        )
    return version


def _found(connection: sqlite3.Connection, partitions: int) -> None:
    """Write what a new file holds."""
    if partitions < 1:
        raise JournalUnavailable(f"expected a number of partitions of 1 or more, got {partitions}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("INSERT INTO meta (name, value) VALUES ('partitions', ?), ('incarnation', 1)", (partitions,))
    connection.executemany("INSERT INTO partitions (partition) VALUES (?)", ((number,) for number in range(partitions)))


def _statements(script: str) -> Iterator[str]:
    # Not executescript: it commits an open transaction, and with it releases the lock.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
