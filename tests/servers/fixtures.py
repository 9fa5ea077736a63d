"""Servers as fixtures. They are shared by the tests of one process: with xdist, each worker has its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.postgres import PostgresServers
from tests.servers.redis import RedisServer, RedisServers


@pytest.fixture(scope="session")
def postgres_servers() -> Iterator[PostgresServers]:
    """By installation, each started when it is first asked for."""
    servers = PostgresServers()
    yield servers
    servers.remove()


@pytest.fixture(scope="session")
def redis_servers() -> Iterator[RedisServers]:
    """Shared: take a prefix of your own, and leave the server as it is."""
    servers = RedisServers()
    yield servers
    servers.remove()


@pytest.fixture(scope="session")
def redis_server(redis_servers: RedisServers) -> RedisServer:
    return redis_servers.get()
