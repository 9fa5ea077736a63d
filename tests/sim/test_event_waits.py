"""Simulated histories whose runs wait for events: none is missed, none is taken twice; and planted bugs do not hide there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from perdure.journal import Topic
from perdure.kernel import events as e
from perdure.kernel import waits
from perdure.kernel.state import State
from perdure.kernel.triggers import events_heard
from perdure.runtime.topic_reader import TopicReader
from perdure.simulation.plan import WAITS_FROM, make_plan
from perdure.simulation.worlds.wait_world import WaitWorld, make_world


def play(seed: int, **other: Any) -> Any:
    world = make_world(msgspec.structs.replace(make_plan(WAITS_FROM + seed), **other))
    assert isinstance(world, WaitWorld)
    return world.run()


def heard(world: Any) -> int:
    found = [e.decode(one.body) for events in world.store.events.values() for one in events]
    return sum(isinstance(one, e.NodeResumed) and one.position > 0 for one in found)


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 20])
def test_no_event_is_missed(start: int) -> None:
    taken = 0
    for seed in range(start, start + 20):
        world = play(seed)
        assert world.failures == [], seed
        taken += heard(world)
    assert taken > 5


def _only_later(patch: pytest.MonkeyPatch) -> None:
    """What came just before the wait is missed."""
    patch.setattr(TopicReader, "note", lambda self, state, events: None)


def _from_the_beginning(patch: pytest.MonkeyPatch) -> None:
    """The next iteration of a loop takes the same event again."""
    real = events_heard.begin_listening

    def begin(state: State, activation: Any, wait: Any) -> Any:
        return msgspec.structs.replace(real(state, activation, wait), since=0)

    patch.setattr(waits, "begin_listening", begin)


def _without_a_row(patch: pytest.MonkeyPatch) -> None:
    """The run waits, and nobody knows what for."""

    def after(state: State, before: Any, events: Sequence[Any]) -> Any:
        return before

    patch.setattr("perdure.runtime.coordinator.loaded.subscriptions_after", after)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "by"), [(_only_later, "R2"), (_from_the_beginning, "rule 53"), (_without_a_row, "R2")]
)
def test_a_wait_that_misses_or_repeats_something_is_noticed(
    plant: Any, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    seeds = (5, 9, 32, 54, 4, 6, *range(60, 400))
    assert any(by in {failure.rule for failure in play(seed).failures} for seed in seeds)


@pytest.mark.slow
def test_a_look_that_forgets_the_runs_taken_over_during_it_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = TopicReader._tell

    async def tell(self: TopicReader, topic: Topic) -> None:
        taken = self._taken
        await real(self, topic)
        self._taken = taken

    monkeypatch.setattr(TopicReader, "_tell", tell)
    # With a slow journal looks take long; still one history in some 400 comes to it. The first ones did when they were tried.
    seeds = (1575, 1760, 2678, *range(3000))
    assert any("R2" in {failure.rule for failure in play(seed, journal_seconds=1.0).failures} for seed in seeds)
