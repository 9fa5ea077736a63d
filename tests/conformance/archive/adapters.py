"""The adapters the suite runs against: each journal that has an archive. Places and handles are those of the journal's suite."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from perdure.archive import Archive
from perdure.journal import Journal
from tests.conformance.journal import adapters as journals

ADAPTERS = {name: adapter for name, adapter in journals.ADAPTERS.items() if name.startswith(("sqlite", "postgres"))}


class Office(NamedTuple):
    """An archive, the journal it belongs to, and a way to open both again, as another process would."""

    archive: Archive
    journal: Journal
    open_again: Callable[[], Awaitable[Office]]


def office_of(handles: journals.Handles) -> Callable[[], Awaitable[Office]]:
    async def open_again() -> Office:
        journal = await handles.open()
        assert journal.archive is not None
        return Office(journal.archive, journal, open_again)

    return open_again
