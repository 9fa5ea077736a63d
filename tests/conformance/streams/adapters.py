"""The adapters the suite runs against, each as two attempts have it: one that yields, and one that reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple

from perdure.streams import Streams
from perdure.transports.envelopes import Keyring
from perdure.transports.local_streams import LocalStreams
from perdure.transports.redis import open_redis
from tests.servers.redis import RedisServers, system_program

READS = ("read", "leave")


class Store(NamedTuple):
    streams: Streams
    forget: Callable[[], object]
    """Lose everything."""


Opener = Callable[[RedisServers], AbstractAsyncContextManager[Store]]


@asynccontextmanager
async def local(servers: RedisServers) -> AsyncIterator[Store]:
    streams = LocalStreams()
    yield Store(streams, streams.lose)
    assert streams._waiting == {}, "somebody waits who is not there any more"


class _Pair:
    """One process yields, and another one reads."""

    def __init__(self, one: Streams, other: Streams) -> None:
        self._one, self._other = one, other

    def __getattr__(self, name: str) -> Any:
        return getattr(self._other if name in READS else self._one, name)


def redis(kind: str = "wheel", keyring: Keyring | None = None) -> Opener:
    @asynccontextmanager
    async def opened(servers: RedisServers) -> AsyncIterator[Store]:
        server = servers.get(kind)
        prefix = server.new_prefix()
        one = await open_redis(server.url, prefix=prefix, keyring=keyring)
        other = await open_redis(server.url, prefix=prefix, keyring=keyring)

        def forget() -> None:
            with server.client() as client:
                for key in list(client.scan_iter(match=f"{prefix}:{{streams:*")):
                    client.delete(key)

        pair: Any = _Pair(one.streams, other.streams)
        yield Store(pair, forget)
        assert one.streams._waiting == other.streams._waiting == {}, "somebody waits who is not there any more"
        await one.close()
        await other.close()
        assert server.unexplained_keys(prefix) == []

    return opened


ADAPTERS: dict[str, Opener] = {
    "local": local,
    "redis": redis(),
    "redis-cluster": redis("cluster"),
    "redis-signed": redis(keyring=Keyring({"one": b"1" * 32})),
}
"""Every case gets `store`, once per adapter."""
if system_program():
    ADAPTERS["redis-system"] = redis("system")
