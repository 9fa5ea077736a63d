"""Simulated histories with a trigger that listens: each event has one run; and planted bugs do not hide there."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest

from perdure.kernel import commands as c
from perdure.kernel.triggers import topics
from perdure.runtime.coordinator.requests import Request
from perdure.runtime.topic_reader import TopicReader
from perdure.simulation.plan import DIVIDED_FROM, TOPICS_FROM, Plan, make_plan
from perdure.simulation.worlds.topic_world import TopicWorld, make_world


@pytest.mark.slow
@pytest.mark.parametrize("seed", [101, 104, 107, DIVIDED_FROM + 101, DIVIDED_FROM + 104, DIVIDED_FROM + 107])
def test_each_event_has_one_run_in_the_end(seed: int) -> None:
    world = make_world(make_plan(TOPICS_FROM + seed)).run()
    assert isinstance(world, TopicWorld)
    assert world.failures == []


@pytest.mark.slow
@pytest.mark.parametrize("start", [200, DIVIDED_FROM + 200])
def test_so_it_is_in_many_histories(start: int) -> None:
    for seed in range(start, start + 15):
        assert make_world(make_plan(TOPICS_FROM + seed)).run().failures == [], seed


def _calm_plan(seconds: float) -> Plan:
    """One process and no fault; what the trigger starts waits for so long."""
    drawn = make_plan(TOPICS_FROM)
    child = {"name": "child", "nodes": [{"id": "a", "type": "wait", "config": {"seconds": seconds}}]}
    calm: dict[str, Any] = {"rates": {}, "skews": [0.0] * len(drawn.skews), "fault_seconds": 10.0}
    alone: dict[str, Any] = {"engines": 1, "workers": 0, "shared": False, "runs": 0, "inputs": []}
    return msgspec.structs.replace(drawn, workflows=[child], **calm, **alone)


class _DeletedLate(TopicWorld):
    """A person deletes the trigger after the faults, while the simulator waits for its end; then one more event happens."""

    async def _make(self) -> None:
        await super()._make()
        if self.chaos.healed:
            reply = await self.users._ask(Request(kind="cancel", run_id=self._head(), by="eve"))
            assert reply is not None
            assert reply.state == "cancelled"
            await self._deliver(["late"])


@pytest.mark.slow
def test_what_happens_after_a_trigger_was_deleted_has_no_run() -> None:
    """However late that is: it was taken for lost where the trigger was deleted while the simulator waited for something."""
    world = _DeletedLate(_calm_plan(1)).run()
    assert world.failures == []
    assert "late" in {one.id for one in world.store.occurrences.values()}


@pytest.mark.slow
def test_a_run_whose_timer_was_set_by_a_clock_ahead_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    world = TopicWorld(_calm_plan(45))
    world.ids = ["item0"]
    monkeypatch.setattr("perdure.runtime.topic_reader._LOOK_SECONDS", 1.0)  # an hour passes
    monkeypatch.setattr(world.chaos.random, "choice", lambda options: options[-1])

    async def jump() -> None:
        world.troubles.cause("clock_jump")

    monkeypatch.setattr(world.troubles, "run", jump)
    assert world.run().failures == []
    assert world.loop.time() > 3600


def _without_items(patch: pytest.MonkeyPatch) -> None:
    """The cursor moves, and what it passes does not come in."""
    real = topics.hear

    def take(d: Any, command: c.Hear) -> None:
        real(d, msgspec.structs.replace(command, items=command.items[1:]))

    patch.setitem(sys.modules["perdure.kernel.decide"]._HANDLERS, c.Hear, take)


def _without_cursor(patch: pytest.MonkeyPatch) -> None:
    """What was read behind another cursor is taken in all the same."""
    real = topics.hear

    def take(d: Any, command: c.Hear) -> None:
        real(
            d, msgspec.structs.replace(command, after=d.state.triggers[command.node].cursor, cursor=command.after + "0")
        )

    patch.setitem(sys.modules["perdure.kernel.decide"]._HANDLERS, c.Hear, take)


def _only_new(patch: pytest.MonkeyPatch) -> None:
    """A process reads what happens from now on, and not what the one before it left."""

    async def look(self: Any) -> None:
        self._due.clear()
        if not self._seen:
            self._seen = await self._journal.last_occurrence()
        while found := await self._journal.list_topics(self._seen, 10):
            for topic in found:
                await self._tell(msgspec.structs.replace(topic, key=""))
            self._seen = max(topic.position for topic in found)

    patch.setattr(TopicReader, "look", look)


@pytest.mark.slow
@pytest.mark.parametrize("plant", [_without_items, _without_cursor, _only_new])
def test_a_reader_that_loses_something_is_noticed(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    seeds = (107, 104, DIVIDED_FROM + 104, *range(200, 500))  # the first ones did when they were tried
    assert any(make_world(make_plan(TOPICS_FROM + seed)).run().failures for seed in seeds)
