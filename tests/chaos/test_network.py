"""The network of one half of the deployment fails while runs are started: the other half goes on."""

from __future__ import annotations

import pytest

from tests.chaos.cluster import PARTITIONS, Cluster
from tests.chaos.load import loaded
from tests.distributed.helpers import eventually

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chaos")]


async def test_connections_that_are_cut_are_made_anew(cluster: Cluster):
    async with loaded(cluster, "cut") as load:
        for _ in range(3):
            for proxy in cluster.sites["a"].proxies:
                proxy.cut()
            await load.effects(15)


async def test_a_slow_network_is_no_fault(cluster: Cluster):
    async with loaded(cluster, "slow") as load:
        for proxy in cluster.sites["a"].proxies:
            proxy.slow_down(0.1)
        await load.effects(60)


async def test_a_coordinator_that_hears_nothing_of_the_database_loses_its_share(cluster: Cluster):
    async with loaded(cluster, "silent-database") as load:
        cluster.sites["a"].postgres.go_silent()
        await eventually(lambda: _held(cluster, [PARTITIONS]))
        await load.started(5)
        await load.goes_on()  # also those whose results reach the one that hears nothing
        cluster.sites["a"].postgres.heal()
        await eventually(lambda: _held(cluster, [PARTITIONS // 2] * 2))


async def test_half_of_the_deployment_hears_nothing_of_redis(cluster: Cluster):
    async with loaded(cluster, "silent-redis") as load:
        cluster.sites["a"].redis.go_silent()
        await eventually(lambda: "has sent no heartbeat" in cluster.get("coordinator-b").said())
        await load.effects(20)  # the other half works
        cluster.sites["a"].redis.heal()
        await load.effects(20)


async def _held(cluster: Cluster, wanted: list[int]) -> bool:
    return sorted((await cluster.holders()).values()) == wanted
