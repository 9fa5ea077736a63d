"""The adapters the suite runs against, and how each is opened."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from perdure.clock import system
from perdure.simulation.transport import Broker, SimTransport
from perdure.transport import Transport
from perdure.transports.envelopes import Keyring
from perdure.transports.local import LocalTransport
from perdure.transports.redis import open_redis
from tests.doubles.calm_world import CalmWorld
from tests.doubles.transport_faults import with_transport_faults
from tests.servers.redis import RedisServers, system_program

PARTITIONS = 8


class Adapter:
    """A transport, and what a coordinator that takes over would do: receive again what nobody acknowledged."""

    def __init__(self, transport: Transport, redeliver: Callable[[], None]) -> None:
        self.transport = transport
        self.redeliver = redeliver


Opener = Callable[[RedisServers], AbstractAsyncContextManager[Adapter]]


@asynccontextmanager
async def local(servers: RedisServers) -> AsyncIterator[Adapter]:
    transport = LocalTransport()
    yield Adapter(transport, transport.redeliver)


@asynccontextmanager
async def faultless(servers: RedisServers) -> AsyncIterator[Adapter]:
    """The fault seams, with no fault planned, must not be noticed."""
    transport = LocalTransport()
    yield Adapter(with_transport_faults(transport, lambda _operation, _number: None), transport.redeliver)


@asynccontextmanager
async def simulated(servers: RedisServers) -> AsyncIterator[Adapter]:
    """The broker of the simulator, through the connection of a simulated process."""
    world: Any = CalmWorld()
    broker = Broker(system)
    link: Any = SimTransport(world, world.process, broker, local=False)
    yield Adapter(link, broker.redeliver)
    await broker.close()


def redis(kind: str = "wheel", keyring: Keyring | None = None) -> Opener:
    @asynccontextmanager
    async def adapter(servers: RedisServers) -> AsyncIterator[Adapter]:
        server = servers.get(kind)
        prefix, partitions = server.new_prefix(), range(PARTITIONS)
        transport = await open_redis(
            server.url, partitions=partitions, partition_count=PARTITIONS, prefix=prefix, keyring=keyring
        )
        yield Adapter(transport, lambda: transport.take_over(partitions))
        await transport.close()
        assert server.unexplained_keys(prefix) == []

    return adapter


ADAPTERS: dict[str, Opener] = {
    "local": local,
    "faultless": faultless,
    "simulated": simulated,
    "redis": redis(),
    "redis-cluster": redis("cluster"),
    "redis-signed": redis(keyring=Keyring({"one": b"1" * 32})),
}
if system_program():
    ADAPTERS["redis-system"] = redis("system")
