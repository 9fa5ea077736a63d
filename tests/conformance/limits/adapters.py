"""The adapters the suite runs against. Each is opened as two processes would have it: they count together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NamedTuple

from perdure.limits import Limits
from perdure.transports.local_limits import LocalLimits
from perdure.transports.redis import open_redis
from tests.servers.redis import RedisServers, system_program


class Pair(NamedTuple):
    one: Limits
    other: Limits
    forget: Callable[[], object]
    """Lose everything."""


Opener = Callable[[RedisServers], AbstractAsyncContextManager[Pair]]


@asynccontextmanager
async def local(servers: RedisServers) -> AsyncIterator[Pair]:
    limits = LocalLimits()

    def forget() -> None:
        limits._slots.clear()
        limits._rates.clear()

    yield Pair(limits, limits, forget)


def redis(kind: str) -> Opener:
    @asynccontextmanager
    async def opened(servers: RedisServers) -> AsyncIterator[Pair]:
        server = servers.get(kind)
        prefix = server.new_prefix()
        one = await open_redis(server.url, prefix=prefix)
        other = await open_redis(server.url, prefix=prefix)

        def forget() -> None:
            with server.client() as client:
                for key in list(client.scan_iter(match=f"{prefix}:{{limit:*")):
                    client.delete(key)

        yield Pair(one.limits, other.limits, forget)
        await one.close()
        await other.close()
        assert server.unexplained_keys(prefix) == []

    return opened


ADAPTERS: dict[str, Opener] = {"local": local, "redis": redis("wheel"), "redis-cluster": redis("cluster")}
if system_program():
    ADAPTERS["redis-system"] = redis("system")
