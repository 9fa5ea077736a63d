"""A pause takes back what no worker has; what one has goes on. Results may come while that is being found out."""

from __future__ import annotations

import asyncio

import pytest

from perdure.kernel import commands as c
from tests.runtime.peers import Peers, sharing

TASK = {"id": "a", "type": "task", "config": {"action": "work"}, "dependencies": []}


async def claimed(peers: Peers) -> None:
    assert [task.task_id for task in await peers.transport.claim("worker", ["default"], 1)] == ["r/a/1.1"]


async def test_an_attempt_that_is_given_back_while_it_is_recalled_does_not_begin_with_nobody_to_miss_it() -> None:
    """R2: the recall found it with a worker, whose result was decided first. It counted as running for ever."""
    async with sharing() as peers:
        one = await peers.join("one")
        await one.start("r", TASK)
        await claimed(peers)
        one.transport.troubles["recall"] = [1.0]
        asking = asyncio.create_task(one.coordinator.ask("r", lambda state: c.Pause(at=peers.clock.now())))
        await peers.clock.advance(0.5)
        one.report("r", "a", kind="handed_back", output=None)
        await peers.clock.advance(1)
        assert (await asking, peers.events("r")[-2:]) == ("paused", ["run.paused", "node.held"])
        await one.coordinator.ask("r", lambda state: c.Resume(at=peers.clock.now()))
        assert one.published == ["r/a/1.1", "r/a/1.2"]


@pytest.mark.parametrize("seconds", [0.0, 1.0])
async def test_an_attempt_that_a_worker_has_begins_when_its_run_is_paused(seconds: float) -> None:
    async with sharing() as peers:
        one = await peers.join("one")
        await one.start("r", TASK)
        await claimed(peers)
        one.transport.troubles["recall"] = [seconds]
        asking = asyncio.create_task(one.coordinator.ask("r", lambda state: c.Pause(at=peers.clock.now())))
        await peers.clock.advance(2)
        assert (await asking, peers.events("r")[-2:]) == ("paused", ["run.paused", "node.started"])
