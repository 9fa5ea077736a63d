"""Limits over several coordinators: counted together, and kept by whoever takes a run over."""

from __future__ import annotations

import pytest

from perdure.kernel.address import Address
from perdure.runtime.coordinator.tasks import limiter
from tests.distributed.helpers import Deployment, eventually
from tests.engine import counting, tasks
from tests.engine.helpers import ask, crash, ended, start, workflow
from tests.engine.test_limits import gate, map_of, stubborn, work

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _count_anew():
    counting.reset()
    tasks.reset()
    yield
    tasks.reset()


async def share(deployment: Deployment, *engines):
    """Each of them decides for some runs."""
    await eventually(lambda: all(engine.coordinator.share.partitions for engine in engines))


async def test_a_key_is_counted_over_all_coordinators_and_workers(deployment: Deployment):
    await share(deployment, *[await deployment.coordinator() for _ in range(2)])
    for _ in range(2):
        await deployment.worker()
    client = await deployment.open()
    definition = workflow(map_of(8, work("x", concurrency={"key": "vendor", "limit": 3})))
    for number in range(12):
        await start(client, definition, f"r{number}")
    for number in range(12):
        assert (await ended(client, f"r{number}")).state.value == "completed"
    assert len(counting.began["all"]) == 96
    assert counting.most["all"] == 3
    with deployment.redis.client() as redis:
        assert list(redis.scan_iter(match=f"{deployment.prefix}:{{limit:*")) == []


async def test_a_queue_is_limited_over_all_coordinators(deployment: Deployment):
    await share(deployment, *[await deployment.coordinator(queue_limits="gpu=2") for _ in range(2)])
    await deployment.worker(queues=("default", "gpu"))
    client = await deployment.open()
    definition = workflow(*(work(f"g{number}", "gpu", queue="gpu") for number in range(4)))
    for number in range(10):
        await start(client, definition, f"r{number}", tenant=f"t{number % 3}")
    for number in range(10):
        assert (await ended(client, f"r{number}")).state.value == "completed"
    assert counting.most["gpu"] == 2


async def test_slots_are_rebuilt_by_whoever_takes_the_runs_over(deployment: Deployment):
    """Even if their leases have lapsed, and others would go first: what workers have is asked of the transport."""
    first = await deployment.coordinator()
    await eventually(lambda: first.coordinator.share.partitions)
    first.transport.limits.lease_seconds = 0.01
    await deployment.worker()
    client = await deployment.open()
    limit = {"key": "k", "limit": 3}
    await start(client, workflow(*(gate(f"g{number}", "g", concurrency=limit) for number in range(3))), "r1")
    await eventually(lambda: len(tasks.seen) == 3)
    await start(client, workflow(*(gate(f"g{n}", "g", concurrency=limit, priority=5) for n in range(4))), "r2")
    deployment.engines.remove(first)
    await crash(first)
    second = await deployment.coordinator()
    names = [Address("r2", f"g{number}").task_id for number in range(4)]
    await eventually(lambda: len(second.coordinator.publisher.limiter._held) == 3)
    await eventually(lambda: all(second.coordinator.publisher.dispatcher.why(name) for name in names))
    assert {name.partition("/")[0] for name in second.coordinator.publisher.limiter._held} == {"r1"}
    assert len(tasks.seen) == 3
    tasks.gate_of("g").set()
    for run_id in ("r1", "r2"):
        assert (await ended(client, run_id)).state.value == "completed"
    assert len(tasks.seen) == 7, "nothing was done twice"


async def test_a_cancelled_attempt_keeps_its_slot_until_its_worker_has_stopped_it(deployment: Deployment):
    nobody_dies = {"worker_dead_seconds": 600.0}  # who is silent on a busy machine is not dead
    await share(deployment, *[await deployment.coordinator(**nobody_dies) for _ in range(2)])
    await deployment.worker(**nobody_dies)
    client = await deployment.open(**nobody_dies)
    limit = {"key": "k", "limit": 1}
    await start(client, workflow(stubborn("s", concurrency=limit)), "r1")
    await eventually(lambda: counting.now["all"])
    for number in range(2, 5):
        await start(client, workflow(work("w", concurrency=limit)), f"r{number}")
    await ask(client, "cancel", "r1")
    await eventually(lambda: counting.stopping)
    await start(client, workflow(work("x", "other")), "r5")
    await ended(client, "r5")
    assert len(counting.began["all"]) == 1, f"it has not stopped yet, and others began: {counting.order}"
    counting.stopping["all"].set()
    for number in range(2, 5):
        assert (await ended(client, f"r{number}")).state.value == "completed"
    assert counting.most["all"] == 1


async def test_after_redis_lost_everything_those_at_work_are_counted_again(deployment: Deployment, monkeypatch):
    monkeypatch.setattr(limiter, "RENEW_SECONDS", 0.2)
    monkeypatch.setattr(limiter, "POLL_SECONDS", 0.1)
    engines = [await deployment.coordinator() for _ in range(2)]
    await share(deployment, *engines)
    await deployment.worker()
    client = await deployment.open()
    definition = workflow(*(gate(f"g{number}", "g", concurrency={"key": "k", "limit": 3}) for number in range(3)))
    await start(client, definition, "r1")
    await eventually(lambda: len(tasks.seen) == 3)
    slots = f"{deployment.prefix}:{{limit:default:k}}:slots"
    with deployment.redis.client() as redis:
        assert redis.delete(slots) == 1
        await eventually(lambda: redis.zcard(slots) == 3)
        for number in range(2, 6):  # so that both coordinators have some
            await start(client, definition, f"r{number}")
        names = [Address(f"r{number}", f"g{node}").task_id for number in range(2, 6) for node in range(3)]
        await eventually(
            lambda: all(any(engine.coordinator.publisher.dispatcher.why(name) for engine in engines) for name in names)
        )
        assert len(tasks.seen) == 3
        tasks.gate_of("g").set()
        for number in range(1, 6):
            assert (await ended(client, f"r{number}")).state.value == "completed"
        assert not redis.exists(slots)
