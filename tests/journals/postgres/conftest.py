"""A server of each installation, and in it a database with an empty journal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from perdure.journals.postgres import open_postgres
from perdure.journals.postgres.journal import PostgresJournal
from tests.journals.postgres.helpers import new_journal
from tests.servers.postgres import PostgresServer, installations


@pytest.fixture(params=sorted(installations()))
def server(request, postgres_servers) -> PostgresServer:
    return postgres_servers.get(request.param)


@pytest.fixture
async def url(server) -> AsyncIterator[str]:
    async with server.database() as name:
        yield server.url(name)


@pytest.fixture(params=sorted(installations()))
def stoppable(request, postgres_servers) -> PostgresServer:
    return postgres_servers.get_stoppable(request.param)


@pytest.fixture
async def stoppable_url(stoppable) -> str:
    return await new_journal(stoppable)


@pytest.fixture
async def open_journal() -> AsyncIterator[Callable[..., Awaitable[PostgresJournal]]]:
    """Opens journals, and closes them at the end."""
    opened: list[PostgresJournal] = []

    async def open_one(url: str, **options: Any) -> PostgresJournal:
        journal = await open_postgres(url, **{"require_durable": False} | options)
        opened.append(journal)
        return journal

    yield open_one
    for journal in opened:
        await journal.close()


@pytest.fixture
async def journal(open_journal, url) -> PostgresJournal:
    return await open_journal(url)


@pytest.fixture
async def admin(url) -> AsyncIterator[Any]:
    """A plain connection to the same database."""
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()
