"""The transport over Redis 7 or later, or Valkey. `open_redis` is the way in."""

from __future__ import annotations

from collections.abc import Collection

from perdure.capacity import PARTITIONS
from perdure.clock import Clock, system
from perdure.tempo import TEMPO, Tempo
from perdure.transports.envelopes import Keyring
from perdure.transports.redis.names import Keys
from perdure.transports.redis.server_check import is_cluster
from perdure.transports.redis.server_url import parse
from perdure.transports.redis.transport import RedisTransport

__all__ = ["RedisTransport", "open_redis"]


async def open_redis(
    url: str,
    *,
    partitions: Collection[int] = (),
    partition_count: int = PARTITIONS,
    keyring: Keyring | None = None,
    prefix: str = "perdure",
    clock: Clock = system,
    tempo: Tempo = TEMPO,
    timeout_seconds: float = 5.0,
    durable_checkpoints: bool = False,
) -> RedisTransport:
    """A transport on the running event loop; raises `TransportUnavailable` if the server cannot be reached.

    A server in cluster mode says so, and its cluster is followed; then the URL may name several of its servers.

    `partitions` are those whose results this process receives from the start; `take_over` and `hand_back` change them.
    `partition_count` is that of the journal, the same in every process, workers included. `timeout_seconds` is how long
    the server may take to answer. With `durable_checkpoints`, a checkpoint counts as reported only once it is
    acknowledged, so that a step begins only after the one before it is durable.
    """
    address = parse(url)
    transport = RedisTransport(
        address,
        clock=clock,
        keys=Keys(prefix),
        keyring=keyring,
        partition_count=partition_count,
        tempo=tempo,
        seconds=timeout_seconds,
        durable_checkpoints=durable_checkpoints,
        is_cluster=await is_cluster(address, clock, timeout_seconds),
    )
    try:
        await transport.open()
    except BaseException:
        await transport.close()
        raise
    transport.take_over(partitions)
    return transport
