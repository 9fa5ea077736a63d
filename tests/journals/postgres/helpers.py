"""New journals, waiting for what a server does, and stopping its writers for a while."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from perdure.journals.postgres import migrate_postgres
from tests.servers.kept import CLEANER
from tests.servers.postgres import PostgresServer
from tests.waiting import until_true as until

__all__ = ["until"]


WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
CONNECTIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' "
    f"AND pid <> pg_backend_pid() AND application_name <> '{CLEANER}'"
)


async def new_journal(server: PostgresServer) -> str:
    """Its URL."""
    name = await server.create_database()
    await migrate_postgres(server.url(name), partitions=8)
    return server.url(name)


@asynccontextmanager
async def locked(url: str, run_id: str | None = None) -> AsyncIterator[Any]:
    """Nobody may use the runs, or write to this one, until the end. Another connection comes out, to look on with."""
    holder, onlooker = await asyncpg.connect(url), await asyncpg.connect(url)
    try:
        async with holder.transaction():
            if run_id is None:
                await holder.execute("LOCK TABLE perdure.runs")
            else:
                await holder.execute("SELECT FROM perdure.runs WHERE run_id = $1 FOR UPDATE", run_id)
            yield onlooker
    finally:
        await holder.close()
        await onlooker.close()


async def until_waiting(connection: Any, count: int) -> None:
    async def are() -> bool:
        return await connection.fetchval(WAITING) >= count

    await until(are, f"{count} statements that wait for a lock")
