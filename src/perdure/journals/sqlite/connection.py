"""How this adapter opens SQLite: paths, modes and pragmas. It knows nothing of tables."""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path
from typing import Literal

import msgspec

from perdure.journal import JournalReadOnly, JournalUnavailable

Synchronous = Literal["OFF", "NORMAL", "FULL", "EXTRA"]

OLDEST_SQLITE = (3, 37, 0)  # STRICT tables


class Options(msgspec.Struct, frozen=True, kw_only=True):
    path: Path
    synchronous: Synchronous
    busy_timeout_seconds: float
    read_only: bool


def connect_writer(options: Options) -> sqlite3.Connection:
    """A connection that may write, which creates the file. Raises what SQLite raises."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        wanted = ".".join(map(str, OLDEST_SQLITE))
        raise JournalUnavailable(f"SQLite {sqlite3.sqlite_version} is too old; Perdure needs {wanted} or later")
    path = options.path
    if not path.parent.is_dir():
        raise JournalUnavailable(
            f"journal {path}: the folder {path.parent} does not exist; create it or choose another"
        )
    if path.is_dir():
        raise JournalUnavailable(f"journal {path} is a folder; name a file in it")
    _make_file(path)
    if path.exists() and os.stat(path).st_nlink > 1:
        raise JournalUnavailable(
            f"journal {path} has several names (hard links), and a process that used another one would damage it; "
            "remove the other names, or make a copy with `sqlite3 ... .backup`"
        )
    connection = _connect(options, f"{path.as_uri()}?mode=rwc")
    try:
        if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute(f"PRAGMA synchronous = {options.synchronous}")
        if sys.platform == "darwin":
            connection.execute("PRAGMA fullfsync = ON")  # plain fsync does not reach the disk there
            connection.execute("PRAGMA checkpoint_fullfsync = ON")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA cache_size = -32768")
        connection.execute("PRAGMA wal_autocheckpoint = 4096")
        connection.execute("PRAGMA journal_size_limit = 67108864")
    except BaseException:
        connection.close()
        raise
    return connection


def _make_file(path: Path) -> None:
    """Create the file for its owner alone; SQLite does the same with those beside it. An existing one stays as it is."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600))
    except OSError:  # it exists, or cannot be made, which SQLite reports better
        pass


def resolve_place(path: Path | str) -> tuple[int, int] | None:
    """Which file stands at the path, whatever it holds; None if there is none."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def connect_reader(options: Options) -> sqlite3.Connection:
    """A connection that cannot write."""
    uri = options.path.as_uri()
    connection = _connect(options, f"{uri}?mode=ro")
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        # On a medium that cannot be written to, SQLite may not make the files that readers share. Without a write-ahead
        # log there is nothing to share, and the file can be read as it is.
        if not options.read_only or error.sqlite_errorcode & 0xFF not in {
            sqlite3.SQLITE_CANTOPEN,
            sqlite3.SQLITE_READONLY,
        }:
            raise
        if Path(f"{options.path}-wal").exists():
            raise JournalReadOnly(
                f"journal {options.path} was not closed cleanly and its folder may not be written to; "
                "copy the file and its -wal file to another folder and open it there"
            ) from error
        connection = _connect(options, f"{uri}?immutable=1")
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(options: Options, uri: str) -> sqlite3.Connection:
    return sqlite3.connect(
        uri,
        uri=True,
        timeout=options.busy_timeout_seconds,
        isolation_level=None,  # transactions are begun and ended by name
        check_same_thread=False,  # each connection is used by one thread at a time; the pools see to it
        cached_statements=128,
    )
