"""Simulated histories with a trigger: nothing that was pushed is lost or done twice; and planted bugs do not hide there."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.triggers import polls
from perdure.runtime.coordinator import loaded
from perdure.simulation.plan import DIVIDED_FROM, POLLS_FROM, TRIGGERS_FROM, make_plan
from perdure.simulation.world import World
from perdure.simulation.worlds.poll_world import PollWorld, make_world
from perdure.simulation.worlds.trigger_world import TriggerWorld


@pytest.mark.slow
@pytest.mark.parametrize("seed", [101, 102, 110, DIVIDED_FROM + 101, DIVIDED_FROM + 102, DIVIDED_FROM + 103])
def test_each_item_has_one_run_in_the_end(seed: int) -> None:
    world = make_world(make_plan(TRIGGERS_FROM + seed)).run()
    assert isinstance(world, TriggerWorld)
    assert world.failures == []


@pytest.mark.slow
@pytest.mark.parametrize("start", [200, 220, DIVIDED_FROM + 200, DIVIDED_FROM + 220])
def test_so_it_is_in_many_histories(start: int) -> None:
    for seed in range(start, start + 20):
        assert make_world(make_plan(TRIGGERS_FROM + seed)).run().failures == [], seed


def test_other_seeds_have_no_trigger() -> None:
    for seed in (7, DIVIDED_FROM + 7):
        assert type(make_world(make_plan(seed))) is World


@pytest.mark.slow
@pytest.mark.parametrize("kind", [fx.StartRun, fx.NotifyTrigger])
def test_a_notice_that_is_not_written_is_noticed(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = loaded.Loaded._notice

    def forget(self: Any, effect: Any) -> None:
        if not isinstance(effect, kind):
            real(self, effect)

    monkeypatch.setattr(loaded.Loaded, "_notice", forget)
    world = make_world(make_plan(TRIGGERS_FROM + 104)).run()
    assert [failure.rule for failure in world.failures] == ["TG10"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [101, 104, DIVIDED_FROM + 101, DIVIDED_FROM + 104])
def test_each_item_of_a_source_has_one_run_in_the_end(seed: int) -> None:
    world = make_world(make_plan(POLLS_FROM + seed)).run()
    assert isinstance(world, PollWorld)
    assert world.failures == []


@pytest.mark.slow
@pytest.mark.parametrize("start", [200, DIVIDED_FROM + 200])
def test_so_it_is_in_many_histories_of_polls(start: int) -> None:
    for seed in range(start, start + 20):
        assert make_world(make_plan(POLLS_FROM + seed)).run().failures == [], seed


def _deaf(patch: pytest.MonkeyPatch) -> None:
    """A poll that has died is never sent again."""
    patch.setattr("perdure.kernel.attempts.is_poll", lambda state, activation: False)
    patch.setattr("perdure.kernel.outstanding.sorted_by_schedule", lambda state, *states: [])


def _without_items(patch: pytest.MonkeyPatch) -> None:
    """The cursor moves, and what it passes does not come in."""
    real = polls.receive

    def receive(d: Any, command: c.Receive) -> None:
        real(d, msgspec.structs.replace(command, items=command.items[1:]))

    patch.setitem(sys.modules["perdure.kernel.decide"]._HANDLERS, c.Receive, receive)


@pytest.mark.slow
@pytest.mark.parametrize("plant", [_without_items, _deaf])
def test_a_poll_that_loses_something_is_noticed(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    seeds = (101, 104, 107, 110, *range(200, 500))  # one of the first did when they were tried
    assert any(make_world(make_plan(POLLS_FROM + seed)).run().failures for seed in seeds)
