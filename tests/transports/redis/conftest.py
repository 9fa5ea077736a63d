"""`own_server`: a server a test may hurt. `opened`: transports with a prefix of their own, checked for what they leave."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.transports.redis import RedisTransport, open_redis
from tests.servers.redis import RedisServer
from tests.servers.redis_cluster import RedisCluster
from tests.transports.redis.helpers import with_tempo

PARTITIONS = 8


LONG = "test_cluster_faults.py"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """These take minutes: `make cluster` runs them."""
    return True if collection_path.name == LONG and config.getoption("--redis") != "three" else None


class Opener:
    """Opens transports, all of them with the same prefix, and closes them in the end."""

    def __init__(self, server: RedisServer | RedisCluster) -> None:
        self.server = server
        self.prefix = server.new_prefix()
        self._opened: list[RedisTransport] = []

    async def __call__(
        self, url: str | None = None, *, partitions: Any = range(PARTITIONS), **options: Any
    ) -> RedisTransport:
        options = dict[str, Any]({"partition_count": PARTITIONS, "prefix": self.prefix}) | options
        transport = await open_redis(url or self.server.url, partitions=partitions, **with_tempo(options))
        self._opened.append(transport)
        return transport

    async def close(self) -> None:
        for transport in self._opened:
            await transport.close()

    def left(self) -> set[str]:
        """The keys of this prefix, without it."""
        with self.server.client() as client:
            return {key.decode().removeprefix(self.prefix + ":") for key in client.scan_iter(match=f"{self.prefix}:*")}


@pytest.fixture
def own_server(redis_servers) -> Iterator[RedisServer]:
    server = redis_servers.new()
    yield server
    server.remove()


@pytest.fixture
async def opened(redis_server) -> AsyncIterator[Opener]:
    opener = Opener(redis_server)
    yield opener
    await opener.close()
    assert redis_server.unexplained_keys(opener.prefix) == []


@pytest.fixture
async def opened_alone(own_server) -> AsyncIterator[Opener]:
    """On a server of its own."""
    opener = Opener(own_server)
    yield opener
    await opener.close()
