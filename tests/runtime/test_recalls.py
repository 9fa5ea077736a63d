"""A pause takes back what no worker has; what one has goes on. Results may come while that is being found out. What a forced
cancel does not wait for is stopped."""

from __future__ import annotations

import asyncio

import pytest

from perdure.kernel import commands as c
from perdure.transport import WorkerBeat
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


@pytest.mark.parametrize("compensate", [False, True])
async def test_rule_29_a_worker_is_told_to_stop_what_a_forced_cancel_does_not_wait_for(compensate: bool) -> None:
    """The journal does not know that the worker has it. A run that compensated let it work on, for as long as it liked."""
    undo = {"compensator": {"type": "task", "config": {"action": "undo"}}}
    done = {**TASK, "id": "done", **undo}
    async with sharing() as peers:
        one = await peers.join("one")
        await one.start("r", done, {**TASK, "dependencies": ["done"]}, on_failure={"compensate": compensate})
        one.report("r", "done")
        await peers.clock.advance(0)
        tasks = await peers.transport.claim("worker", ["default"], 2)
        assert [task.task_id for task in tasks] == ["r/done/1.1", "r/a/1.1"]
        state = await one.coordinator.ask("r", lambda state: c.Cancel(at=peers.clock.now(), force=True))
        assert state == ("compensating" if compensate else "cancelled")
        beat = WorkerBeat("worker", ("r/done/1.1", "r/a/1.1"), 2)
        assert peers.transport.beat(beat) == ("r/a/1.1",)
        assert one.coordinator.publisher.dispatcher.find("r/a/1.1") is None
