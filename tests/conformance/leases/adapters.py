"""The adapters the suite runs against: leases, and the journal whose appends they fence."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NamedTuple

from perdure.journal import Journal
from perdure.journals.postgres import open_postgres
from perdure.leases import Leases
from perdure.simulation.leases import MemoryLeases
from tests.doubles.fake_clock import FakeClock
from tests.doubles.memory_journal import MemoryJournal, Store
from tests.servers.postgres import PostgresServers, installations

PARTITIONS = 8


class Office(NamedTuple):
    leases: Leases
    journal: Journal


Adapter = Callable[[PostgresServers], AbstractAsyncContextManager[Office]]


@asynccontextmanager
async def memory(servers: PostgresServers) -> AsyncIterator[Office]:
    store = Store(PARTITIONS)
    yield Office(MemoryLeases(store), MemoryJournal(store))


def postgres(installation: str) -> Adapter:
    @asynccontextmanager
    async def adapter(servers: PostgresServers) -> AsyncIterator[Office]:
        server = servers.get(installation)
        async with server.database(PARTITIONS) as name:
            # The clock of the process stands still and is wrong: leases know the database's alone.
            journal = await open_postgres(server.url(name), require_durable=False, clock=FakeClock(1.0))
            yield Office(journal.leases, journal)
            await journal.close()

    return adapter


ADAPTERS: dict[str, Adapter] = {"memory": memory, "postgres": postgres("wheel")}
if "system" in installations():
    ADAPTERS["postgres-system"] = postgres("system")
