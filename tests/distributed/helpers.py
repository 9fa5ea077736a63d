"""A deployment for tests: a database and a Redis prefix of its own, and engines that share them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from perdure.engine import Engine
from tests.engine.helpers import open_engine
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer
from tests.waiting import PATIENCE_SECONDS as DEADLINE
from tests.waiting import until_true

__all__ = ["DEADLINE"]

PARTITIONS = 16


class Deployment:
    def __init__(self, database_url: str, redis: RedisServer, blobs: Path) -> None:
        self.database_url = database_url
        self.redis = redis
        self.prefix = redis.new_prefix()
        self.blobs = blobs
        self.engines: list[Engine] = []

    async def open(self, **options: Any) -> Engine:
        given: dict[str, Any] = {
            "redis_url": self.redis.url,
            "redis_prefix": self.prefix,
            "blob_url": f"file:{self.blobs}",
            "worker_heartbeat_seconds": 0.2,
            "worker_dead_seconds": 1.0,
            "sweep_seconds": 0.5,
            "lease_seconds": 2.0,
            "journal_options": {"require_durable": False},
        }
        engine = await open_engine(self.database_url, **given | options)
        self.engines.append(engine)
        return engine

    async def coordinator(self, **options: Any) -> Engine:
        engine = await self.open(**options)
        await engine.coordinate()
        return engine

    async def worker(
        self, queues: tuple[str, ...] = ("default",), types: tuple[str, ...] = (), **options: Any
    ) -> Engine:
        engine = await self.open(**options)
        await engine.work(queues=queues, types=types)
        return engine

    async def close(self, engine: Engine) -> None:
        self.engines.remove(engine)
        await asyncio.wait_for(engine.close(0.5), DEADLINE)


@asynccontextmanager
async def deployed(postgres: PostgresServer, redis: RedisServer, folder: Path) -> AsyncIterator[Deployment]:
    async with postgres.database(PARTITIONS) as name:
        deployment = Deployment(postgres.url(name), redis, folder / "blobs")
        try:
            yield deployment
        finally:
            for engine in reversed(list(deployment.engines)):
                await deployment.close(engine)


async def eventually(what: Callable[[], Awaitable[Any]] | Callable[[], Any], seconds: float = DEADLINE) -> Any:
    """Wait until it is true."""
    return await until_true(what, "it is true", seconds)
