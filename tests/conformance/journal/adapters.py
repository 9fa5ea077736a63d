"""The adapters the suite runs against, and what each needs to be opened, twice if need be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.doubles.faults import with_faults
from tests.doubles.memory_journal import MemoryJournal, Store
from weft.journal import Journal
from weft.journals.sqlite import SqliteJournal

PARTITIONS = 8

Opener = Callable[[], Awaitable[Journal]]


def sqlite(folder: Path) -> Opener:
    async def open_again() -> Journal:
        return await SqliteJournal.open(folder / "weft.db", partitions=PARTITIONS)

    return open_again


def memory(folder: Path) -> Opener:
    store = Store(PARTITIONS)

    async def open_again() -> Journal:
        return MemoryJournal(store)

    return open_again


def faultless(folder: Path) -> Opener:
    """The fault seams, with no fault planned, must not be noticed."""
    store = Store(PARTITIONS)

    async def open_again() -> Journal:
        return with_faults(MemoryJournal(store), lambda _operation, _number: None)

    return open_again


ADAPTERS: dict[str, Callable[[Path], Opener]] = {"sqlite": sqlite, "memory": memory, "faultless": faultless}


class Handles:
    """Journals over one storage: `open` gives another one, as another process would have."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._opened: list[Journal] = []

    async def open(self) -> Journal:
        journal = await self._opener()
        self._opened.append(journal)
        return journal

    async def close(self) -> None:
        for journal in self._opened:
            await journal.close()
