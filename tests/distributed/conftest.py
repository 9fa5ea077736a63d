from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.distributed.helpers import Deployment, deployed
from tests.servers.postgres import PostgresServers
from tests.servers.redis import RedisServer


@pytest.fixture
async def deployment(
    postgres_servers: PostgresServers, redis_server: RedisServer, tmp_path: Path
) -> AsyncIterator[Deployment]:
    async with deployed(postgres_servers.get("wheel"), redis_server, tmp_path) as made:
        yield made
