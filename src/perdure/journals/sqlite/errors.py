"""Errors of SQLite in the words of the port. Knows codes and advice, not which call failed."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from perdure.errors import PerdureError
from perdure.journal import (
    InvalidCommit,
    JournalBusy,
    JournalClosed,
    JournalCorrupt,
    JournalFull,
    JournalReadOnly,
    JournalUnavailable,
    OutcomeUnknown,
)

# Primary result codes, https://www.sqlite.org/rescode.html
_KINDS: dict[int, tuple[type[JournalUnavailable], str]] = {
    sqlite3.SQLITE_BUSY: (JournalBusy, "another process writes to it; try again, or stop that process"),
    sqlite3.SQLITE_LOCKED: (JournalBusy, "another connection writes to it; try again"),
    sqlite3.SQLITE_FULL: (JournalFull, "no space is left; free some on that disk, then go on"),
    sqlite3.SQLITE_READONLY: (JournalReadOnly, "it may not be written to; check the rights of the file and its folder"),
    sqlite3.SQLITE_PERM: (JournalReadOnly, "access was denied; check the rights of the file and its folder"),
    sqlite3.SQLITE_CORRUPT: (JournalCorrupt, "its content is damaged; restore a backup, and raise the incarnation"),
    sqlite3.SQLITE_NOTADB: (JournalCorrupt, "it is not an SQLite file; choose another path, or restore a backup"),
    sqlite3.SQLITE_CANTOPEN: (JournalUnavailable, "it cannot be opened; check that the folder exists and may be used"),
    sqlite3.SQLITE_IOERR: (JournalUnavailable, "the disk failed to read or write; check the disk, then go on"),
}

# Values that cannot be stored: one caller's mistake, which must not look like trouble of the whole database.
_CALLERS_FAULT = {
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_RANGE,
}
_CALLERS_FAULTS = (
    sqlite3.DataError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    ValueError,
    TypeError,
    OverflowError,
)


def _code(error: BaseException) -> int:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def translate(error: Exception, path: Path) -> PerdureError:
    """The error of the port for a failure before the commit: nothing was written."""
    if isinstance(error, PerdureError):
        return error
    kind, advice = _KINDS.get(_code(error), (JournalUnavailable, ""))
    if advice:
        return kind(f"journal {path}: {error}: {advice}")
    if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
        return JournalClosed(f"journal {path} is closed")
    if "no such table" in str(error) or "no such column" in str(error):
        return JournalCorrupt(f"journal {path}: {error}: its tables were changed by hand; restore a backup")
    if _code(error) in _CALLERS_FAULT or isinstance(error, _CALLERS_FAULTS):
        return InvalidCommit(f"journal {path} cannot store this: {error}")
    return JournalUnavailable(f"journal {path}: {type(error).__name__}: {error}")


def translate_commit(error: Exception, path: Path) -> PerdureError:
    """The port's error for a failed COMMIT. The outcome is known only where SQLite surely wrote no commit mark."""
    if _code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL}:
        return translate(error, path)
    return OutcomeUnknown(f"journal {path}: {error} while committing: read back the commit id before trying again")
