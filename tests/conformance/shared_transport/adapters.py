"""The adapters the suite runs against. Each opens any number of transports that reach each other, as processes would."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from perdure.clock import system
from perdure.simulation.transport import Broker, SimTransport
from perdure.transport import SharedTransport
from perdure.transports.envelopes import Keyring
from perdure.transports.redis import open_redis
from tests.doubles.calm_world import CalmWorld
from tests.servers.redis import RedisServers, system_program

PARTITIONS = 8

Open = Callable[[Collection[int]], Awaitable[SharedTransport]]
"""Another process, which receives for these partitions."""
Adapter = Callable[[RedisServers], AbstractAsyncContextManager[Open]]


@asynccontextmanager
async def simulated(servers: RedisServers) -> AsyncIterator[Open]:
    """The broker of the simulator, through the connections of simulated processes."""
    broker = Broker(system)
    broker.partition_count = PARTITIONS
    opened: list[SimTransport] = []

    async def open_another(partitions: Collection[int]) -> SharedTransport:
        world: Any = CalmWorld()
        world.plan.divided = True
        link = SimTransport(world, world.process, broker, local=False)
        opened.append(link)
        link.take_over(partitions)
        return link

    yield open_another
    for link in opened:
        await link.close()
    await broker.close()


def redis(kind: str = "wheel", keyring: Keyring | None = None) -> Adapter:
    @asynccontextmanager
    async def adapter(servers: RedisServers) -> AsyncIterator[Open]:
        server = servers.get(kind)
        prefix = server.new_prefix()
        opened: list[SharedTransport] = []

        async def open_another(partitions: Collection[int]) -> SharedTransport:
            transport = await open_redis(
                server.url, partitions=partitions, partition_count=PARTITIONS, prefix=prefix, keyring=keyring
            )
            opened.append(transport)
            return transport

        yield open_another
        for transport in opened:
            await transport.close()
        assert server.unexplained_keys(prefix) == []

    return adapter


ADAPTERS: dict[str, Adapter] = {
    "simulated": simulated,
    "redis": redis(),
    "redis-cluster": redis("cluster"),
    "redis-signed": redis(keyring=Keyring({"one": b"1" * 32})),
}
if system_program():
    ADAPTERS["redis-system"] = redis("system")
