"""Histories whose handlers make calls under a budget: no promise is broken, and bugs that are planted on purpose are found."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from perdure.kernel import attempts, edges
from perdure.kernel.facts import money_facts, node_facts
from perdure.kernel.state import Activation, State
from perdure.model.money import NOTHING
from perdure.runtime.coordinator import loaded, projections, purses
from perdure.simulation.plan import ASKS_FROM, DIVIDED_FROM, MONEY_FROM, make_plan
from perdure.simulation.worlds.money_world import MoneyWorld, make_world

Patch = pytest.MonkeyPatch


@pytest.mark.slow
@pytest.mark.parametrize("start", [100, DIVIDED_FROM + 30])
def test_no_promise_is_broken(start: int) -> None:
    made = 0
    for seed in range(MONEY_FROM + start, MONEY_FROM + start + 15):
        world = make_world(make_plan(seed)).run()
        assert isinstance(world, MoneyWorld)
        assert world.failures == [], seed
        made += sum(world.made.values())
    assert made > 30


def test_other_seeds_make_no_calls() -> None:
    assert not isinstance(make_world(make_plan(ASKS_FROM + 7)), MoneyWorld)


def let_all_begin(patch: Patch) -> None:
    patch.setattr(attempts, "find_short", lambda *given, **keys: None)


def forget_what_died(patch: Patch) -> None:
    """What was set aside for calls whose worker died is free again."""

    def lose(state: State, activation: Activation) -> None:
        for step in list(activation.reserved or ()):
            money_facts.release(state, activation, step)

    patch.setattr(edges, "lose", lose)
    patch.setattr(node_facts, "lose", lose)


def keep_what_is_settled(patch: Patch) -> None:
    """A result is counted, and what was set aside for it stays so."""

    def settle(state: State, activation: Activation, step: str, usage: Any) -> None:
        money_facts._spend(state, activation, usage, "")
        activation.reserved = {name: one for name, one in (activation.reserved or {}).items() if name != step} or None

    patch.setattr(node_facts, "settle", settle)


def let_nobody_go(patch: Patch) -> None:
    patch.setattr(importlib.import_module("perdure.kernel.decide"), "let_go", lambda d: None)


def count_children_twice(patch: Patch) -> None:
    from perdure.kernel.facts import wait_facts

    real = money_facts.end_loan

    def end_loan(state: State, child: str, usage: Any) -> None:
        real(state, child, usage)
        money_facts._change(state, spent=state.money.spent + (usage or NOTHING))

    patch.setattr(wait_facts, "end_loan", end_loan)


def count_again_after_a_refusal(patch: Patch) -> None:
    """A commit brings to the ledger all that the run has used since it was loaded, and not since its last commit."""
    real = loaded.Loaded.committed

    def committed(self: Any) -> None:
        before = self.counted
        real(self)
        self.counted = before

    patch.setattr(loaded.Loaded, "committed", committed)


def forget_what_it_let_begin(patch: Patch) -> None:
    """A coordinator believes what it read, and forgets what it has let begin since."""
    patch.setattr(purses.Purses, "note", lambda self, state, usage: None)


def set_nothing_aside_for_others(patch: Patch) -> None:
    """What is set aside for calls under way is not in the ledger."""
    real = projections.list_used

    def list_used(*given: Any) -> Any:
        return tuple(row for row in real(*given) if row.day)

    patch.setattr(loaded, "list_used", list_used)


BUGS: dict[str, tuple[Callable[[Patch], None], set[str]]] = {
    "a call begins without room": (let_all_begin, {"B1"}),
    "a coordinator forgets what it has let begin": (forget_what_it_let_begin, {"B1"}),
    "the ledger has only what was used": (set_nothing_aside_for_others, {"B1"}),
    "the ledger counts twice": (count_again_after_a_refusal, {"B1", "B2", "B3"}),
    "a reservation is lost in a crash": (forget_what_died, {"B2"}),
    "what is settled stays set aside": (keep_what_is_settled, {"B3", "rule 82", "R2"}),
    "nobody is let go when there is room": (let_nobody_go, {"rule 82", "R2"}),
    "what a child used is counted twice": (count_children_twice, {"B2"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found_in_a_history(name: str, monkeypatch: Patch) -> None:
    plant, told = BUGS[name]
    plant(monkeypatch)
    for seed in range(MONEY_FROM + 120, MONEY_FROM + 420):  # the rarest bug shows in one of forty
        failures = make_world(make_plan(seed)).run().failures
        if failures and failures[0].rule in told:
            break
    else:
        pytest.fail(f"no history tells of it: {name}")
    monkeypatch.undo()
    assert make_world(make_plan(seed)).run().failures == []
