"""Servers as fixtures. They are shared by the tests of one process: with xdist, each worker has its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.postgres import PostgresServers
from tests.servers.redis import RedisServer, RedisServers
from tests.shuffle import add_option


def pytest_addoption(parser: pytest.Parser) -> None:
    add_option(parser)
    parser.addoption(
        "--redis", choices=["wheel", "three"], default="wheel", help="one server, or a cluster of three (make cluster)"
    )


@pytest.fixture(scope="session")
def postgres_servers() -> Iterator[PostgresServers]:
    """By installation, each started when it is first asked for."""
    servers = PostgresServers()
    yield servers
    servers.remove()


@pytest.fixture(scope="session")
def redis_servers(request: pytest.FixtureRequest) -> Iterator[RedisServers]:
    """Shared: take a prefix of your own, and leave the server as it is."""
    servers = RedisServers(request.config.getoption("--redis"))
    yield servers
    servers.remove()


@pytest.fixture(scope="session")
def redis_server(redis_servers: RedisServers) -> RedisServer:
    return redis_servers.get()
