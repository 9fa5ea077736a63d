"""The adapters the suite runs against, and what each needs to be opened, twice if need be."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from perdure.journal import Journal
from perdure.journals.postgres import open_postgres
from perdure.journals.sqlite import SqliteJournal
from perdure.simulation.journal import SimJournal
from tests.doubles.calm_world import CalmWorld
from tests.doubles.faults import with_faults
from tests.doubles.memory_journal import MemoryJournal, Store
from tests.servers.postgres import PostgresServers, installations

PARTITIONS = 8

Opener = Callable[[], Awaitable[Journal]]


class Place(NamedTuple):
    """Where an adapter may keep things."""

    folder: Path
    servers: PostgresServers


Adapter = Callable[[Place], AbstractAsyncContextManager[Opener]]


@asynccontextmanager
async def sqlite(place: Place) -> AsyncIterator[Opener]:
    async def open_again() -> Journal:
        return await SqliteJournal.open(place.folder / "perdure.db", partitions=PARTITIONS)

    yield open_again


@asynccontextmanager
async def memory(place: Place) -> AsyncIterator[Opener]:
    store = Store(PARTITIONS)

    async def open_again() -> Journal:
        return MemoryJournal(store)

    yield open_again


@asynccontextmanager
async def faultless(place: Place) -> AsyncIterator[Opener]:
    """The fault seams, with no fault planned, must not be noticed."""
    store = Store(PARTITIONS)

    async def open_again() -> Journal:
        return with_faults(MemoryJournal(store), lambda _operation, _number: None)

    yield open_again


@asynccontextmanager
async def simulated(place: Place) -> AsyncIterator[Opener]:
    """The connection of a simulated process."""
    world: Any = CalmWorld(Store(PARTITIONS))

    async def open_again() -> Journal:
        return cast(Journal, SimJournal(world, world.process))

    yield open_again


def postgres(installation: str) -> Adapter:
    @asynccontextmanager
    async def adapter(place: Place) -> AsyncIterator[Opener]:
        server = place.servers.get(installation)
        async with server.database(PARTITIONS) as name:

            async def open_again() -> Journal:
                return await open_postgres(server.url(name), require_durable=False)

            yield open_again

    return adapter


ADAPTERS: dict[str, Adapter] = {
    "sqlite": sqlite,
    "memory": memory,
    "faultless": faultless,
    "simulated": simulated,
    "postgres": postgres("wheel"),
}
if "system" in installations():
    ADAPTERS["postgres-system"] = postgres("system")


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
