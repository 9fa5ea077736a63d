"""Two coordinators believe in one partition, machines disagree about the time, a hand-over is interrupted: the database decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from perdure.clock import SystemClock
from perdure.engine import Engine
from perdure.journal import JournalUnavailable
from perdure.transports.redis import RedisTransport
from tests.distributed.helpers import PARTITIONS, Deployment, deployed, eventually
from tests.engine import tasks
from tests.engine.helpers import ask, crash, ended, events, start, task, workflow
from tests.servers.postgres import PostgresServers
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.slow

PAIR = workflow(task("a"), task("b", needs=["a"]))
HOUR = 3600.0


class WrongClock(SystemClock):
    """That of a machine whose time is off."""

    def __init__(self, off: float) -> None:
        super().__init__()
        self._off = off

    def now(self) -> float:
        return super().now() + self._off


@pytest.fixture
async def deployment(
    postgres_servers: PostgresServers, redis_server: RedisServer, tmp_path: Path
) -> AsyncIterator[Deployment]:
    tasks.reset()
    async with deployed(postgres_servers.get("wheel"), redis_server, tmp_path) as made:
        yield made


def held(engine: Engine) -> set[int]:
    assert engine.coordinator is not None
    return set(engine.coordinator.share.partitions or ())


def stop_renewing(engine: Engine) -> None:
    """It asks for the lease no more and goes on believing in it, as on a machine whose clock stood still with it."""
    for loop in [one for one in engine.parts.tasks if one.get_name() in ("perdure-sharing", "perdure-leases")]:
        engine.parts.tasks.remove(loop)
        loop.cancel()
    assert engine.coordinator is not None
    engine.coordinator.share.extend(float("inf"))


async def test_of_two_that_believe_in_a_partition_only_the_later_one_decides(deployment: Deployment):
    """The first one is asked, does not know better, and is refused by the journal; then it asks the other."""
    first = await deployment.coordinator(lease_seconds=0.5)
    await eventually(lambda: len(held(first)) == PARTITIONS)
    await deployment.worker()
    await start(first, workflow(task("a"), {"id": "w", "type": "wait", "config": {"signal": "go"}}), "waits")
    stop_renewing(first)
    second = await deployment.coordinator()
    await eventually(lambda: len(held(second)) == PARTITIONS)
    assert len(held(first)) == PARTITIONS, "it believes that it holds them"
    names = [f"run-{number}" for number in range(2 * PARTITIONS)]
    for name in names:
        assert not (await start(first, PAIR, name)).refused
    assert not (await ask(first, "signal", "waits", name="go")).refused
    for name in (*names, "waits"):
        assert (await ended(second, name)).state.value == "completed"
    assert not held(first) & {second.coordinator.share.partition(name) for name in names}  # type: ignore[union-attr]


async def test_who_asks_for_its_lease_in_vain_receives_no_results_from_when_it_lapses(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
):
    """A database that keeps silent is noticed late; until then results would go to somebody who cannot write them."""
    first = await deployment.coordinator(lease_seconds=0.5)
    await eventually(lambda: len(held(first)) == PARTITIONS)

    async def keep_silent(*_: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(first.journal.leases, "lease", keep_silent)
    results = cast(RedisTransport, first.transport)._results
    assert results.partitions
    await eventually(lambda: not results.partitions)
    second = await deployment.coordinator()
    await deployment.worker()
    await start(second, PAIR, "r1")
    assert (await ended(second, "r1")).state.value == "completed"


async def test_runs_that_could_not_be_listed_at_a_hand_over_are_gone_on_with_later(deployment: Deployment):
    """Their tasks are lost with Redis, so that nobody but the new coordinator could know of them."""
    first = await deployment.coordinator()
    names = [f"run-{number}" for number in range(PARTITIONS)]
    for name in names:
        await start(first, PAIR, name)
    await deployment.close(first)
    with deployment.redis.client() as client:
        for key in client.scan_iter(match=f"{deployment.prefix}:*"):
            client.delete(key)
    second = await deployment.open()
    listed, refusals = second.journal.list_active_runs, 2

    async def refuse_first(*arguments: Any, **options: Any) -> Any:
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise JournalUnavailable("the network is cut")
        return await listed(*arguments, **options)

    second.journal.list_active_runs = refuse_first  # type: ignore[method-assign]
    await second.coordinate()
    await deployment.worker()
    for name in names:
        assert (await ended(second, name)).state.value == "completed"
    assert refusals == 0


async def test_a_worker_that_comes_back_under_its_name_before_it_is_missed_has_forgotten_what_it_had(
    deployment: Deployment,
):
    await deployment.coordinator(worker_dead_seconds=2.0)
    client = await deployment.open()
    bob = await deployment.open(worker_dead_seconds=2.0)
    await bob.work(worker_id="bob")
    await start(client, workflow(task("a", "gate", args={"name": "never"})), "r1")
    await eventually(lambda: tasks.seen)
    deployment.engines.remove(bob)
    await crash(bob)
    tasks.gate_of("never").set()
    again = await deployment.open(worker_dead_seconds=2.0)
    await again.work(worker_id="bob")
    assert (await ended(client, "r1")).state.value == "completed"
    assert [attempt for _, attempt in tasks.seen] == [1, 1], "nothing failed: it is sent again"


async def test_processes_on_machines_with_wrong_clocks_agree_on_the_time(deployment: Deployment):
    early = await deployment.coordinator(clock=WrongClock(-HOUR))
    late = await deployment.coordinator(clock=WrongClock(+HOUR))
    await eventually(lambda: len(held(early)) == len(held(late)) == PARTITIONS // 2)
    await deployment.worker(clock=WrongClock(-HOUR))
    client = await deployment.open(clock=WrongClock(+HOUR))
    slow: dict[str, Any] = {"timeout_seconds": 20, "total_timeout_seconds": 60}
    waiting = workflow(
        task("a", **slow),
        {"id": "pause", "type": "wait", "config": {"seconds": 0.3}, "dependencies": ["a"]},
        task("b", "fail", ["pause"], args={"times": 1}, retry={"max_attempts": 2, "backoff_ms": 50}, **slow),
    )
    names = [f"run-{number}" for number in range(PARTITIONS)]
    began = SystemClock().now()
    for name in names:
        await start(client, waiting, name)
    for name in names:
        state = await ended(client, name)
        assert state.state.value == "completed"
        times = [event.at for event in await events(client.journal, name)]
        assert times == sorted(times)
        assert began - 5 < times[0]
        assert times[-1] < SystemClock().now() + 5
