"""Simulated histories with a run that has a trigger inside: what it takes is what came, each once and in order; planted bugs do not hide."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest

from perdure.kernel import commands as c
from perdure.kernel import events as e
from perdure.kernel.decider import Decider
from perdure.kernel.state import State
from perdure.kernel.triggers import carried, polls
from perdure.simulation.plan import INNER_FROM, make_plan
from perdure.simulation.worlds.inner_world import InnerWorld, make_world


def play(seed: int) -> Any:
    world = make_world(make_plan(INNER_FROM + seed))
    assert isinstance(world, InnerWorld)
    return world.run()


def count(world: Any, kind: type[e.Event]) -> int:
    return sum(isinstance(e.decode(one.body), kind) for events in world.store.events.values() for one in events)


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 1_000_000])
def test_what_is_taken_is_what_came(start: int) -> None:
    handed = carried_over = 0
    for seed in range(start, start + 8):
        world = play(seed)
        assert world.failures == [], seed
        handed += count(world, e.TriggerHanded)
        carried_over += count(world, e.TriggerCarried)
    assert handed > 40
    assert carried_over > 1


def _items_not_carried_over(patch: pytest.MonkeyPatch) -> None:
    real = carried._carry

    def lose(state: State, node: str) -> c.Carried:
        one = real(state, node)
        return msgspec.structs.replace(one, mailbox=msgspec.structs.replace(one.mailbox, waiting={}))

    patch.setattr(carried, "_carry", lose)


def _an_old_poll_counts(patch: pytest.MonkeyPatch) -> None:
    """Whoever answers is believed, wherever it began: so are two pollers of one cursor."""
    patch.setattr(polls, "fence", lambda d, command: d.get(command))
    real = polls.receive

    def receive(d: Decider, command: c.Receive) -> None:
        real(d, msgspec.structs.replace(command, after=d.state.triggers[command.address.node].cursor))

    handlers: Any = sys.modules["perdure.kernel.decide"]._HANDLERS
    patch.setitem(handlers, c.Receive, receive)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "seeds", "by"),
    [(_items_not_carried_over, range(600), "rule 54"), (_an_old_poll_counts, range(1_000_000, 1_000_300), "TG8")],
)
def test_a_trigger_that_loses_or_repeats_something_is_noticed(
    plant: Any, seeds: range, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert any(by in {failure.rule for failure in play(seed).failures} for seed in seeds)
