"""Simulated histories with a trigger: nothing that was pushed is lost or done twice; and planted bugs do not hide there."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.kernel import commands as c
from perdure.runtime.coordinator import loaded
from perdure.simulation.plan import DIVIDED_FROM, TRIGGERS_FROM, make_plan
from perdure.simulation.trigger_world import TriggerWorld, make_world
from perdure.simulation.world import World


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
@pytest.mark.parametrize("kind", [c.StartRun, c.NotifyTrigger])
def test_a_notice_that_is_not_written_is_noticed(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = loaded.Loaded._notice

    def forget(self: Any, effect: Any) -> None:
        if not isinstance(effect, kind):
            real(self, effect)

    monkeypatch.setattr(loaded.Loaded, "_notice", forget)
    world = make_world(make_plan(TRIGGERS_FROM + 104)).run()
    assert [failure.rule for failure in world.failures] == ["TG10"]
