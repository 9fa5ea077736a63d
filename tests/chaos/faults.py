"""What can go wrong, each as something that begins, lasts and ends. Chance decides where; whoever calls decides how long."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from tests.chaos.cluster import PATIENCE_SECONDS, SITES, Cluster, Process
from tests.distributed.helpers import eventually

Fault = Callable[[Cluster, random.Random, float], Awaitable[None]]


async def kill_a_worker(cluster: Cluster, rng: random.Random, seconds: float) -> None:
    await _kill([rng.choice(cluster.of("worker"))], seconds)


async def kill_a_coordinator(cluster: Cluster, rng: random.Random, seconds: float) -> None:
    await _kill([rng.choice(cluster.of("coordinator"))], seconds)


async def kill_all_coordinators(cluster: Cluster, rng: random.Random, seconds: float) -> None:
    await _kill(cluster.of("coordinator"), seconds)


async def kill_everything(cluster: Cluster, rng: random.Random, seconds: float) -> None:
    await _kill(list(cluster.processes.values()), seconds)


async def _kill(processes: list[Process], seconds: float) -> None:
    for process in processes:
        process.kill()
    await asyncio.sleep(seconds)
    for process in processes:
        if not process.is_running:
            process.start()


async def leave(cluster: Cluster, rng: random.Random, seconds: float) -> None:
    process = rng.choice(list(cluster.processes.values()))
    if process.is_running:
        process.go_on()
        process.ask_to_leave()
        await eventually(lambda: not process.is_running, PATIENCE_SECONDS)
        process.start()


async def stand_still(cluster: Cluster, rng: random.Random, seconds: float) -> None:
    process = rng.choice(list(cluster.processes.values()))
    if process.is_running:
        process.pause()
        await asyncio.sleep(seconds)
        if process.is_running:
            process.go_on()


async def kill_redis(cluster: Cluster, rng: random.Random, seconds: float) -> None:
    cluster.kill_redis()
    await asyncio.sleep(seconds)
    cluster.heal_servers()


async def pause_redis(cluster: Cluster, rng: random.Random, seconds: float) -> None:
    if not cluster.redis_is_dead:
        cluster.redis.pause()
        await asyncio.sleep(seconds)
        if not cluster.redis_is_dead:
            cluster.redis.go_on()


async def flush_redis(cluster: Cluster, rng: random.Random, seconds: float) -> None:
    if not cluster.redis_is_dead:
        await asyncio.to_thread(_flush, cluster, rng.random() < 0.5)


def _flush(cluster: Cluster, scripts: bool) -> None:
    with cluster.redis.client(socket_timeout=20) as client:
        if scripts:
            client.script_flush()
        else:
            client.flushall()


async def stop_postgres(cluster: Cluster, rng: random.Random, seconds: float) -> None:
    cluster.postgres.stop("immediate")
    await asyncio.sleep(seconds)
    cluster.heal_servers()


async def end_backends(cluster: Cluster, rng: random.Random, seconds: float) -> None:
    if cluster.postgres.is_running:
        await cluster.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() < 0.7"
        )


async def cut(cluster: Cluster, rng: random.Random, seconds: float) -> None:
    proxy = rng.choice(cluster.sites[rng.choice(SITES)].proxies)
    if rng.random() < 0.5:
        proxy.cut()
    else:
        proxy.cut_after(rng.randint(1, 20_000))


async def refuse(cluster: Cluster, rng: random.Random, seconds: float) -> None:
    proxy = rng.choice(cluster.sites[rng.choice(SITES)].proxies)
    proxy.refuse()
    proxy.cut()
    await asyncio.sleep(seconds)
    proxy.heal()


async def slow_down(cluster: Cluster, rng: random.Random, seconds: float) -> None:
    proxy = rng.choice(cluster.sites[rng.choice(SITES)].proxies)
    proxy.slow_down(rng.random() * 0.3)
    await asyncio.sleep(seconds)
    proxy.heal()


async def go_silent(cluster: Cluster, rng: random.Random, seconds: float) -> None:
    proxy = rng.choice(cluster.sites[rng.choice(SITES)].proxies)
    proxy.go_silent()
    await asyncio.sleep(seconds)
    if rng.random() < 0.5:
        proxy.cut()
    proxy.heal()


FAULTS: tuple[Fault, ...] = (
    kill_a_worker,
    kill_a_coordinator,
    kill_all_coordinators,
    kill_everything,
    leave,
    stand_still,
    stand_still,
    kill_redis,
    pause_redis,
    flush_redis,
    stop_postgres,
    end_backends,
    cut,
    refuse,
    slow_down,
    go_silent,
)
