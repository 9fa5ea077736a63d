"""The journal in one SQLite file: the embedded engine's."""

from perdure.journals.sqlite.journal import SqliteJournal

__all__ = ["SqliteJournal"]
