"""Histories whose handlers ask: no promise is broken, and bugs that are planted on purpose are found."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from perdure.kernel import attempts, child_runs, decider, generations, loops, outstanding, settle
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel.state import Activation
from perdure.kernel.steps import asked_patches, asks
from perdure.runtime.coordinator import rulings
from perdure.simulation.plan import ASKS_FROM, DIVIDED_FROM, make_plan
from perdure.simulation.worlds.ask_world import AskWorld
from perdure.simulation.worlds.poll_world import PollWorld, make_world
from tests.property.asking import Asking
from tests.property.walk import explore

Patch = pytest.MonkeyPatch


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 20, DIVIDED_FROM, DIVIDED_FROM + 20])
def test_no_promise_is_broken(start: int) -> None:
    answers = patches = 0
    for seed in range(ASKS_FROM + start, ASKS_FROM + start + 20):
        world = make_world(make_plan(seed)).run()
        assert isinstance(world, AskWorld)
        assert world.failures == [], seed
        answers += world.checks.answers
        patches += sum(stored.type == "run.patched" for events in world.store.events.values() for stored in events)
    assert answers > 20
    assert patches


def test_other_seeds_do_not_ask() -> None:
    for seed in (7, DIVIDED_FROM + 7, 2 * DIVIDED_FROM + 7, 4 * DIVIDED_FROM + 7):
        assert not isinstance(make_world(make_plan(seed)), AskWorld)
    assert isinstance(make_world(make_plan(ASKS_FROM - 7)), PollWorld)


def answer_twice(patch: Patch) -> None:
    real = asks.answer

    def answer(d: Any, activation: Activation, name: str, data: Any, **keys: Any) -> None:
        if activation.asks[name].kind == "sleep":
            d.emit_for(e.NodeCheckpointed, activation, step=name, data=data, version=2)
        real(d, activation, name, data, **keys)

    patch.setattr(asks, "answer", answer)


def leave_children(patch: Patch) -> None:
    """Children of asks are not known to anything that ends their asker, or waits for them."""

    def plain(activation: Activation) -> list[str]:
        return [activation.child] if activation.child_open else []

    for module in (decider, loops):
        patch.setattr(module, "open_children", plain)
    for module in (decider, outstanding):
        patch.setattr(module, "list_left", lambda state, activation: [])
    patch.setattr(settle, "waits_for_child", lambda a: not a.asks and child_runs.waits_for_child(a))


def let_twins_in(patch: Patch) -> None:
    real = attempts._objection

    def objection(state: Any, activation: Activation, command: Any, success: bool) -> str | None:
        asked, activation.suspended = activation.suspended, 0
        try:
            return real(state, activation, command, success)
        finally:
            activation.suspended = asked

    patch.setattr(attempts, "_objection", objection)


def forget_answers(patch: Patch) -> None:
    real = generations.make_ready

    def make_ready(state: Any, activation: Activation) -> None:
        real(state, activation)
        activation.checkpoint = None

    patch.setattr(generations, "make_ready", make_ready)


def let_patches_do_more(patch: Patch) -> None:
    """What a handler's patch may do is not looked at: only what anybody's may."""
    patch.setattr(asked_patches, "_beyond", lambda state, activation, new: iter(()))


def answer_before_the_patch(patch: Patch) -> None:
    real = asks.answer

    def answer(d: Any, activation: Activation, name: str, data: Any, **keys: Any) -> None:
        real(d, activation, name, data if not data["refused"] else {**data, "applied": True}, **keys)

    patch.setattr(asked_patches, "answer", answer)


def lose_patches(patch: Patch) -> None:
    """A process that takes a run over does not know that a patch is to be made."""
    real = outstanding.outstanding

    def left(state: Any) -> list[Any]:
        return [effect for effect in real(state) if not isinstance(effect, fx.ApplyPatch)]

    patch.setattr(rulings, "outstanding", left)


BUGS: dict[str, tuple[Callable[[Patch], None], str]] = {
    "a patch of a handler does more than it may": (let_patches_do_more, "AG3"),
    "a handler is told of a patch that was refused": (answer_before_the_patch, "AG3"),
    "an answer is counted twice": (answer_twice, "V9"),
    "the child of an ask is orphaned": (leave_children, "rule 25"),
    "a twin of the attempt before skips the ask": (let_twins_in, "V3"),
    "what was answered is asked for again after a retry": (forget_answers, "V9"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found_in_a_walk(name: str, monkeypatch: Patch) -> None:
    plant, rule = BUGS[name]
    plant(monkeypatch)
    for seed in range(500):
        try:
            explore(Random(seed), steps=50, size=8, kind=Asking)
        except Exception as error:  # noqa: BLE001  a bug may tell in many ways, and this one is looked for
            if rule in str(error):
                break
    else:
        pytest.fail(f"{rule} does not tell of it in 500 walks: {name}")
    monkeypatch.undo()
    explore(Random(seed), steps=50, size=8, kind=Asking)


IN_HISTORIES: dict[str, tuple[Callable[[Patch], None], set[str]]] = {
    "an answer is counted twice": (answer_twice, {"V9"}),
    "the child of an ask is orphaned": (leave_children, {"rule 25", "rule 35", "R2", "R6"}),
    "a patch of a handler does more than it may": (let_patches_do_more, {"AG3"}),
    "a patch is lost with its process": (lose_patches, {"R2"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_HISTORIES)
def test_a_planted_bug_is_found_in_a_history(name: str, monkeypatch: Patch) -> None:
    plant, told = IN_HISTORIES[name]
    plant(monkeypatch)
    for seed in range(ASKS_FROM, ASKS_FROM + 120):
        failures = make_world(make_plan(seed)).run().failures
        if failures and failures[0].rule in told:
            break
    else:
        pytest.fail(f"no history tells of it: {name}")
    monkeypatch.undo()
    assert make_world(make_plan(seed)).run().failures == []
