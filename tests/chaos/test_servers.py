"""Servers stop, forget and go back in time while runs are started: PostgreSQL is the truth, and Redis only carries it."""

from __future__ import annotations

import pytest

from tests.chaos.cluster import Cluster
from tests.chaos.load import loaded
from tests.distributed.helpers import eventually

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chaos")]

OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


async def test_a_redis_that_was_killed_comes_back_empty_and_nothing_is_lost(cluster: Cluster):
    async with loaded(cluster, "redis-killed") as load:
        cluster.kill_redis()
        await load.started(5)  # starting needs PostgreSQL only
        cluster.heal()
        await load.effects(20)


async def test_a_redis_that_forgets_everything_or_its_scripts_is_filled_again(cluster: Cluster):
    async with loaded(cluster, "flushed") as load:
        for _ in range(2):
            with cluster.redis.client() as client:
                client.flushall()
                await load.effects(15)
                client.script_flush()
                await load.effects(15)


async def test_runs_stand_still_while_the_database_is_away_for_longer_than_a_lease(cluster: Cluster):
    async with loaded(cluster, "stopped") as load:
        cluster.postgres.stop("immediate")
        await eventually(lambda: all("has lapsed" in process.said() for process in cluster.of("coordinator")))
        cluster.heal()
        await load.effects(20)


async def test_connections_that_the_database_ends_are_made_anew(cluster: Cluster):
    async with loaded(cluster, "terminated") as load:
        for _ in range(3):
            await cluster.query(f"SELECT pg_terminate_backend(pid) {OTHERS}")
            await load.effects(20)


async def test_a_database_that_went_back_in_time_goes_on_from_there(cluster: Cluster):
    async with loaded(cluster, "restored") as load:
        cluster.back_up()
        (before,) = await cluster.query("SELECT incarnation FROM perdure.meta")
        await load.started(10)
        await load.effects(20)
        cluster.restore()
        await eventually(lambda: _is_later(cluster, before["incarnation"]))
        assert await load.forget_lost(), "the backup was too late to lose anything"
        await load.started(3)


async def _is_later(cluster: Cluster, before: int) -> bool:
    (row,) = await cluster.query("SELECT incarnation FROM perdure.meta")
    return bool(row["incarnation"] > before)
