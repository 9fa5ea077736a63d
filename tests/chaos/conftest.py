from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.cluster import Cluster, clustered
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for all: starting its processes takes longer than most faults. Each test finds it whole, and leaves it anyhow."""
    folder: Path = tmp_path_factory.mktemp("chaos")
    postgres, redis = PostgresServer(), RedisServer()
    try:
        postgres.start()
        redis.start()
        with clustered(postgres, redis, folder) as made:
            yield made
    finally:
        redis.remove()
        postgres.remove()
