"""Histories of joins that once went wrong."""

from __future__ import annotations

from typing import Any

from perdure.kernel import commands as c
from perdure.kernel.values import Error
from tests.kernel.driver import Run
from tests.kernel.histories.helpers import UNDO, again


def test_a_join_whose_losers_are_cancelled_in_the_same_append_fires_once() -> None:
    run = Run.of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["a"]},
        {"id": "j", "dependencies": ["a", "b", "c"], "join": {"at_least": 1, "cancel_rest": True}},
    )
    run.complete("a")
    assert run.states() == {"a": "completed", "b": "cancelled", "c": "cancelled", "j": "queued"}


def test_a_required_dependency_that_only_its_own_race_cancels_does_not_skip_the_winner() -> None:
    run = Run.of(
        {"id": "a"},
        {"id": "b"},
        {
            "id": "j",
            "dependencies": [{"node": "a", "required": True}, "b"],
            "join": {"at_least": 1, "cancel_rest": True},
        },
    )
    run.complete("b")
    assert run.states() == {"a": "cancelled", "b": "completed", "j": "queued"}


def test_a_required_dependency_skipped_further_up_in_the_same_append_skips_an_any_join() -> None:
    run = Run.of(
        {"id": "a", "branch": {"rules": [{"condition": "true", "next_nodes": ["p"]}], "default": ["q"]}},
        {"id": "p"},
        {"id": "q"},
        {"id": "r", "dependencies": ["q"]},
        {"id": "j", "dependencies": ["a", {"node": "r", "required": True}], "join": "any"},
        answers={"branch": True},
    )
    run.complete("a")
    assert run.state_of("j") == "skipped"


def test_a_when_that_cannot_be_evaluated_keeps_the_others_of_its_append_from_being_routed() -> None:
    run = Run.of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"], "when": "inputs.x"},
        {"id": "c", "dependencies": ["a"], "when": "inputs.x"},
        answers={("when", "b"): Error("bad", "no"), ("when", "c"): False},
    )
    run.complete("a")
    assert run.status == "failed"
    assert run.state_of("c") != "skipped"


def test_a_token_for_a_join_that_fired_before_a_retry_is_consumed() -> None:
    run = Run.of(
        {"id": "a"},
        {"id": "b"},
        {"id": "f"},
        {"id": "j", "dependencies": ["a", "b"], "join": "any"},
    )
    run.begin("b")
    run.complete("a")
    run.begin("j")
    run.fail("f")
    run.complete("b")
    run.lapse("j")
    assert run.status == "failed"
    run.tell(c.Retry)
    run.complete("j")
    run.complete("f")
    assert run.status == "completed"


def test_a_second_required_dependency_that_was_skipped_still_counts_after_a_retry() -> None:
    run = Run.of(
        {"id": "a", "when": "inputs.x"},
        {"id": "b", "compensator": UNDO},
        {"id": "f"},
        {
            "id": "j",
            "dependencies": [{"node": "a", "required": True}, {"node": "b", "required": True}],
            "join": {"at_least": 1},
        },
        on_failure={"compensate": True},
        answers={"when": False},
    )
    run.complete("b")
    run.fail("f")
    run.complete("b", undo=True)
    run.tell(c.Retry)
    run.complete("b")
    assert run.state_of("j") == "skipped"


def test_a_required_dependency_that_its_when_skips_in_the_same_append_skips_an_any_join() -> None:
    run = Run.of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"], "when": "inputs.x"},
        {"id": "j", "dependencies": ["a", {"node": "b", "required": True}], "join": "any"},
        answers={"when": False},
    )
    run.complete("a")
    assert run.state_of("j") == "skipped"
    assert run.status == "completed"


def test_a_late_token_does_not_lengthen_the_way_of_a_join_that_has_fired() -> None:
    run = Run.of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"]},
        {"id": "j", "dependencies": ["a", "b"], "join": "any"},
        limits={"max_hops": 1},
    )
    run.complete("a")
    run.complete("b")
    run.fail("j", retryable=True)
    run.pass_time(60)
    assert run.state_of("j") == "queued"


def test_a_race_into_a_loop_cancels_the_iteration_that_another_loop_is_in() -> None:
    def more(question: Any) -> bool:
        return bool(question.need.node == "b" and question.need.scope == (1,))

    race = {"id": "h", "dependencies": ["b", "r"], "join": {"at_least": 1, "cancel_rest": True}}
    first = {"id": "b", "dependencies": ["a"], "loop": again("a")}
    run = Run.of(
        {"id": "a"},
        first,
        {"id": "r"},
        race,
        {"id": "x", "dependencies": ["h"], "loop": again("h")},
        answers={"loop": more},
    )
    run.complete("a", scope=(1,))
    run.complete("b", scope=(1,))
    run.complete("r")
    assert (run.state_of("a", (2,)), run.state_of("h", (1,))) == ("cancelled", "queued")
    run.complete("h", scope=(1,))
    run.complete("x", scope=(1,))
    assert run.status == "completed"
