"""Processes die, stand still and leave while runs are started: nothing is lost, nothing is done twice, all goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.journal import Journal
from perdure.kernel.events import NodeCompleted
from tests.chaos.cluster import PARTITIONS, Cluster
from tests.chaos.load import loaded
from tests.chaos.workflows import LONG
from tests.distributed.helpers import eventually
from tests.engine.helpers import events

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chaos")]


async def test_a_worker_that_is_killed_is_replaced_by_the_others(cluster: Cluster):
    async with loaded(cluster, "worker") as load:
        cluster.get("worker-a").kill()
        await load.effects(30)


async def test_a_coordinator_that_is_killed_is_missed_when_its_lease_lapses(cluster: Cluster):
    async with loaded(cluster, "coordinator") as load:
        cluster.get("coordinator-a").kill()
        await eventually(lambda: _held(cluster, [PARTITIONS]))
        await load.started(5)


async def test_when_everything_is_killed_the_next_start_goes_on_by_itself(cluster: Cluster):
    async with loaded(cluster, "everything"):
        for process in cluster.processes.values():
            process.kill()
        cluster.heal()


async def test_a_coordinator_that_stood_still_longer_than_its_lease_changes_nothing(cluster: Cluster):
    async with loaded(cluster, "paused-coordinator") as load:
        cluster.get("coordinator-a").pause()
        await eventually(lambda: _held(cluster, [PARTITIONS]))
        await load.started(3)
        cluster.get("coordinator-a").go_on()
        await eventually(lambda: _held(cluster, [PARTITIONS // 2] * 2))


async def test_a_worker_that_stood_still_longer_than_its_silence_is_not_believed(cluster: Cluster):
    """What it had was done by another meanwhile; it goes on with it, and reports what nobody waits for."""
    async with loaded(cluster, "paused-worker") as load:
        worker = cluster.get("worker-a")
        gate = Path(f"{cluster.effects_file}.go")
        names: list[str] = []
        while len(names) < 8 or not any(
            pid == worker.pid for *_, pid in _long(cluster)
        ):  # the other may take any number
            names.append(f"{load.prefix}-long-{len(names)}")
            await load.start(names[-1], str(LONG["name"]), counted=False)
            await eventually(lambda: len(_long(cluster)) >= len(names))
        worker.pause()
        gate.touch()  # noqa: ASYNC240  the others go on; what the worker has is under way until it goes on, too
        had = {key for _, key, _, pid in _long(cluster) if pid == worker.pid}
        await eventually(lambda: had <= {key for _, key, attempt, _ in _long(cluster) if attempt == 2})
        await load.goes_on()
        worker.go_on()
        await load.effects(20)
        for name in names:
            await eventually(lambda name=name: _completions(load.engine.journal, name))
            (done,) = await _completions(load.engine.journal, name)
            assert done.attempt > 1 or f"{name}/long/do" not in had


async def _completions(journal: Journal, run_id: str) -> list[NodeCompleted]:
    return [event for event in await events(journal, run_id) if isinstance(event, NodeCompleted)]


def _long(cluster: Cluster) -> list[tuple[str, str, int, int]]:
    return [effect for effect in cluster.effects() if effect[0] == "long"]


async def test_who_is_asked_to_leave_hands_over_before_its_lease_lapses_and_hands_back_what_it_has(cluster: Cluster):
    async with loaded(cluster, "leaving") as load:
        leaving = cluster.get("coordinator-a"), cluster.get("worker-b")
        for process in leaving:
            process.ask_to_leave()
        assert leaving[0].wait() == 0
        left = await cluster.query("SELECT FROM perdure.coordinators")  # those whose lease has lapsed are in it too
        assert len(left) == 1
        await eventually(lambda: _held(cluster, [PARTITIONS]))
        assert leaving[1].wait() == 0
        await load.effects(20)


async def _held(cluster: Cluster, wanted: list[int]) -> bool:
    return sorted((await cluster.holders()).values()) == wanted
