"""Every error Perdure raises on purpose, in one tree.

    PerdureError
    ├── SettingsInvalid     a setting is unknown, of the wrong type or out of range
    ├── NotFound            what an id or a name points to does not exist
    ├── Refused             the state of a thing does not allow what was asked; asking again will not help
    │   └── Conflict        another writer was first; read again, then decide again
    ├── IntegrityError      a journal says something that cannot be true; its run is quarantined
    ├── StoreUnavailable    the database or blob store did not answer; nothing is known about the outcome
    ├── SchemaTooNew        the database was made by a later version of Perdure
    └── SchemaTooOld        the database was made by an earlier version of Perdure, or not at all

A definition with problems raises `perdure.model.problems.DefinitionError`, which stands with what it describes.

Each class has a `code` that HTTP, the command line, documents and metrics use. Codes are never renamed. Messages name
the subject, the problem, the facts and the way out; they hold ids, never payloads.
"""

from __future__ import annotations

from typing import ClassVar


class PerdureError(Exception):
    """The root of the tree: `except PerdureError` catches whatever Perdure raises on purpose."""

    code: str = "error"
    status: ClassVar[int] = 500  # what an HTTP answer carries

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class SettingsInvalid(PerdureError):
    code = "settings_invalid"


class NotFound(PerdureError):
    code = "not_found"
    status = 404


class Refused(PerdureError):
    """A refusal with its own code (`run_ended`, `already_decided`, …), so that callers need not read the message."""

    code = "refused"
    status = 409

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class Conflict(Refused):
    code = "conflict"


class IntegrityError(PerdureError):
    code = "integrity_error"


class StoreUnavailable(PerdureError):
    code = "store_unavailable"
    status = 503


class SchemaTooNew(PerdureError):
    code = "schema_too_new"


class SchemaTooOld(PerdureError):
    code = "schema_too_old"
