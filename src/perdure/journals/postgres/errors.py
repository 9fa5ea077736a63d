"""Errors of PostgreSQL and its driver in the words of the port. Knows codes and advice, not which call failed."""

from __future__ import annotations

import asyncpg  # type: ignore[import-untyped]

from perdure.errors import IntegrityError, PerdureError, SettingsInvalid
from perdure.journal import (
    InvalidCommit,
    JournalBusy,
    JournalCorrupt,
    JournalFull,
    JournalReadOnly,
    JournalUnavailable,
    OutcomeUnknown,
)

# https://www.postgresql.org/docs/current/errcodes-appendix.html; whole codes before classes
_KINDS: dict[str, tuple[type[PerdureError], str]] = {
    "25006": (JournalReadOnly, "it may not be written to; is this a standby? name the primary"),
    "28": (JournalUnavailable, "the server refused the user; check name, password and pg_hba.conf"),
    "3D000": (JournalUnavailable, "there is no such database; create it, or correct the URL"),
    "40": (JournalBusy, "others wrote the same at the same time; try again"),
    "42501": (JournalUnavailable, "the user has no right to do this; grant it, or use the one that migrated"),
    "42": (JournalCorrupt, "its tables or functions are not those of this program; were they changed by hand?"),
    "3F": (JournalCorrupt, "its schema is not that of this program; was it changed by hand?"),
    "53100": (JournalFull, "no space is left; free some on the disk of the server, then go on"),
    "53300": (JournalUnavailable, "it has no connection left; raise max_connections, or use fewer"),
    "53": (JournalUnavailable, "the server is short of something; see its log"),
    "55000": (JournalReadOnly, "the server is a standby, or not ready; name the primary"),
    "55P03": (JournalBusy, "another session holds a lock for too long; try again"),
    "57014": (JournalBusy, "it took too long and was cancelled; try again, and see the log of the server"),
    "57P": (JournalUnavailable, "the server is starting or stopping; try again"),
    "58": (JournalUnavailable, "the disk of the server failed; see its log"),
    "XX001": (JournalCorrupt, "its content is damaged; restore a backup"),
    "XX002": (JournalCorrupt, "an index is damaged; see the log of the server, and REINDEX"),
    # Values that cannot be stored: one caller's mistake, which must not look like trouble of the whole database.
    "22": (InvalidCommit, "it cannot store this"),
    "23": (InvalidCommit, "it cannot store this"),
    "54": (InvalidCommit, "it cannot store this: too large"),
}
_LOST = (OSError, TimeoutError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError, asyncpg.InternalClientError)
_KEY_TAKEN = "idempotency_pkey"


def _is_callers(error: BaseException) -> bool:
    """Whether the caller passed what the driver cannot encode. Some errors of a network are ValueErrors too."""
    return isinstance(error, ValueError | TypeError | OverflowError) and not isinstance(error, OSError)


def is_lost(error: BaseException) -> bool:
    """Whether the connection is of no more use, so that it is unknown how far the server came."""
    if isinstance(error, asyncpg.PostgresError) and not isinstance(error, asyncpg.PostgresConnectionError):
        # The last words of a server that stops, or of one of its processes that is stopped.
        return getattr(error, "severity_en", None) in {"FATAL", "PANIC"}
    return isinstance(error, _LOST) and not _is_callers(error)


def is_rivalry(error: BaseException) -> bool:
    """Whether nothing was written because another transaction wrote at the same moment; the next try may succeed."""
    if isinstance(error, asyncpg.UniqueViolationError):
        return bool(error.constraint_name == _KEY_TAKEN)
    return isinstance(error, asyncpg.DeadlockDetectedError | asyncpg.SerializationError)


def is_locked(error: BaseException) -> bool:
    """Whether another session holds the lock that was asked for."""
    return isinstance(error, asyncpg.LockNotAvailableError)


def is_no_text(error: BaseException) -> bool:
    """Whether the error is about text that PostgreSQL cannot hold, such as with NUL: nothing of that name exists."""
    return isinstance(error, asyncpg.CharacterNotInRepertoireError) or isinstance(error.__cause__, UnicodeError)


def is_text(value: str) -> bool:
    """Whether PostgreSQL can hold this text."""
    try:
        return b"\0" not in value.encode()
    except UnicodeError:
        return False


def translate(error: Exception, name: str) -> PerdureError:
    """The error of the port for a failure that wrote nothing."""
    if isinstance(error, PerdureError):
        return error
    if isinstance(error, asyncpg.UniqueViolationError) and str(error.table_name).startswith("events"):
        return IntegrityError(f"journal {name} holds events that their run does not count: {error.detail}")
    if _is_callers(error):
        return InvalidCommit(f"journal {name} cannot store this: {error}")
    if isinstance(error, asyncpg.DataError) and error.__cause__ is not None:
        # The driver could not encode a value and quotes it: a payload has no place in a message.
        return InvalidCommit(f"journal {name} cannot store this: {error.__cause__}")
    if isinstance(error, asyncpg.PostgresError):
        code = error.sqlstate or ""
        for length in (5, 3, 2):
            if code[:length] in _KINDS:
                kind, advice = _KINDS[code[:length]]
                return kind(f"journal {name}: {error} ({code}): {advice}")
        return JournalUnavailable(f"journal {name}: {error} ({code}); see the log of the server")
    if isinstance(error, TimeoutError):
        return JournalUnavailable(f"journal {name} did not answer in time; is it reachable, and not overloaded?")
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return JournalReadOnly(f"journal {name}: {error}; wait for a primary, or correct the URL")
    return JournalUnavailable(f"journal {name}: {type(error).__name__}: {error}; is the server running and reachable?")


def translate_connect(error: Exception, name: str) -> PerdureError:
    """The error of the port for a connection that could not be made."""
    if _is_callers(error):
        return SettingsInvalid(f"the URL of journal {name} is not valid: {error}")
    return translate(error, name)


def translate_write(error: Exception, name: str) -> PerdureError:
    """The port's error for a failure after a write was sent. Only the server's answer says that nothing was written."""
    if is_lost(error):
        return OutcomeUnknown(
            f"journal {name}: {str(error) or type(error).__name__} while writing: read back the commit id before trying again"
        )
    return translate(error, name)
