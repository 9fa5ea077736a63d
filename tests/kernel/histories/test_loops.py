"""Histories of loops that once went wrong."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.kernel import commands as c
from perdure.kernel import continuations
from perdure.kernel import effects as fx
from perdure.kernel.values import Wait
from tests.kernel.driver import Run
from tests.kernel.histories.helpers import UNDO, again
from tests.kernel.rules.graphs import pick


def test_an_iteration_that_was_closing_when_the_run_failed_closes_after_a_retry() -> None:
    run = Run.of(
        {"id": "x", "loop": {"condition": "true", "max_iterations": 2}},
        {"id": "z", "dependencies": ["x"]},
        limits={"max_bytes": 1},
        answers={"loop": False},
    )
    run.complete("x", scope=(1,), size=2)
    assert run.status == "failed"
    run.tell(c.Retry)
    assert run.state_of("z") == "queued"


def test_a_compensated_loop_is_left_again_by_those_who_wait_for_it() -> None:
    run = Run.of(
        {"id": "x", "compensator": UNDO, "loop": {"condition": "true", "max_iterations": 2, "timeout_path": ["t"]}},
        {"id": "t"},
        {"id": "y", "dependencies": ["x"]},
        {"id": "z", "dependencies": ["t", "y"]},
        on_failure={"compensate": True},
        answers={"loop": False},
    )
    run.complete("x", scope=(1,))
    run.complete("y")
    run.fail("z")
    run.complete("x", scope=(1,), undo=True)
    run.tell(c.Retry)
    run.complete("x", scope=(1,))
    run.complete("z")
    assert run.status == "completed"


def test_a_loop_that_ended_by_a_failure_goes_on_after_a_retry_with_what_that_cut_off() -> None:
    run = Run.of(
        {"id": "h"},
        {"id": "s", "dependencies": ["h"]},
        {"id": "x", "dependencies": ["h"], "loop": again("h")},
        {"id": "y", "dependencies": ["x"]},
        {"id": "j", "dependencies": ["y"], "join": "any"},
        answers={"loop": False},
    )
    run.complete("h", scope=(1,))
    run.fail("x", scope=(1,))
    assert run.status == "failed"
    run.tell(c.Retry)
    assert run.state_of("x", (1,)) == run.state_of("s", (1,)) == "queued"
    run.complete("s", scope=(1,))
    run.complete("x", scope=(1,))
    run.complete("y")
    run.complete("j")
    assert run.status == "completed"


def test_a_loop_that_was_left_is_not_left_anew_when_what_was_undone_in_it_fails() -> None:
    goes_back = False
    run = Run.of(
        {"id": "x", "compensator": UNDO, "loop": {"condition": "true", "max_iterations": 3}},
        {"id": "y", "dependencies": ["x"], "compensator": UNDO},
        {"id": "k", "dependencies": ["x"]},
        {"id": "z", "dependencies": ["y", "k"]},
        on_failure={"compensate": True},
        answers={"loop": lambda question: goes_back},
    )
    run.complete("x", scope=(1,))
    run.complete("k")
    run.complete("y")
    run.fail("z")
    run.complete("y", undo=True)
    run.complete("x", scope=(1,), undo=True)
    run.tell(c.Retry)
    run.fail("x", scope=(1,))
    assert (run.status, run.state_of("y")) == ("failed", "upstream_failed")
    goes_back = True
    run.tell(c.Retry)
    run.complete("x", scope=(1,))  # seeds 497652 and 1184736: it went back, and `k` was led to twice
    assert (run.state_of("x", (2,)), run.state_of("y")) == ("pending", "queued")
    run.complete("y")
    run.complete("z")
    assert run.status == "completed"


def test_a_loop_that_a_retry_reopens_is_left_again_beside_one_who_kept_an_outcome() -> None:
    run = Run.of(
        {"id": "h"},
        {"id": "x", "dependencies": ["h"], "loop": again("h")},
        {"id": "b"},
        {"id": "k", "dependencies": ["h", "b"], "join": "any"},
        {"id": "y", "dependencies": ["x"]},
        {"id": "j", "dependencies": ["y"], "join": "any"},
        answers={"loop": False},
    )
    run.complete("b")
    run.complete("k")
    run.complete("h", scope=(1,))
    run.fail("x", scope=(1,))
    assert run.status == "failed"
    run.tell(c.Retry)
    run.complete("x", scope=(1,))  # seed 498076: the checker took the exit `h` -> `k` for a second one
    run.complete("y")
    run.complete("j")
    assert run.status == "completed"


def test_a_draining_iteration_takes_exits_of_nodes_it_had_not_reached_yet() -> None:
    run = Run.of(
        {"id": "h", "branch": {"rules": [{"condition": "true", "next_nodes": ["p"]}], "default": ["x"]}},
        {"id": "p"},
        {"id": "q", "dependencies": ["p"]},
        {"id": "x", "loop": again("h")},
        {"id": "z", "dependencies": ["x", "q"]},
        answers={"branch": True},
    )
    run.complete("h", scope=(1,))
    assert run.state_of("x", (1,)) == "skipped"
    run.complete("p", scope=(1,))
    run.complete("q", scope=(1,))
    run.complete("z")
    assert run.status == "completed"


def test_a_loop_whose_looping_node_loses_a_race_is_over_for_those_outside() -> None:
    run = Run.of(
        {"id": "h"},
        {"id": "x", "dependencies": ["h"], "loop": again("h")},
        {"id": "o", "dependencies": ["h", "k"]},
        {"id": "k"},
        {"id": "b"},
        {"id": "j", "dependencies": ["x", "b"], "join": {"at_least": 1, "cancel_rest": True}},
    )
    run.complete("h", scope=(1,))
    run.complete("b")
    assert run.state_of("x", (1,)) == "cancelled"
    run.complete("k")
    run.complete("j")
    run.complete("o")
    assert run.status == "completed"


def test_a_loop_that_was_closing_by_a_failure_is_open_again_when_what_failed_runs_again() -> None:
    run = Run.of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"]},
        {"id": "x", "dependencies": ["b"], "loop": {"condition": "true", "max_iterations": 2}},
        {"id": "y", "dependencies": ["x"]},
        {"id": "j", "dependencies": ["y", "b"], "join": {"at_least": 2}},
        answers={"loop": False},
    )
    run.fail("a")
    assert run.status == "failed"
    run.tell(c.Retry)
    run.complete("a")
    run.complete("b")
    run.complete("x", scope=(1,))
    run.complete("y")
    run.complete("j")
    assert run.status == "completed"


def test_work_done_again_in_a_closed_iteration_does_not_leave_a_loop_that_still_runs() -> None:
    run = Run.of(
        {"id": "x", "compensator": UNDO, "loop": {"condition": "true", "max_iterations": 2, "timeout_path": []}},
        {"id": "f"},
        {"id": "z", "dependencies": ["x", "f"], "join": {"at_least": 2}},
        on_failure={"compensate": True},
        answers={"loop": lambda question: question.need.scope == (1,)},
    )
    run.complete("x", scope=(1,))
    run.tell(c.FireTimer, timer="none")
    run.fail("x", scope=(2,))
    run.fail("f")
    for _ in range(3):
        if run.status == "compensating":
            run.complete("x", scope=(1,), undo=True)
    assert run.status == "failed"
    run.tell(c.Retry)
    run.complete("x", scope=(1,))
    assert run.state_of("z") == "pending"
    run.complete("f")
    run.complete("x", scope=(2,))
    run.complete("z")
    assert run.status == "completed"


def test_an_endless_run_goes_on_as_another_one_also_when_its_last_iteration_cancels_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(continuations, "LONG_JOURNAL", 5)
    loop = {"condition": "true", "loop_back_to": "tick"}
    wait = {"id": "tick", "type": "wait", "config": {"seconds": 3}}
    nodes = (wait, {"id": "side", "dependencies": ["tick"]}, {"id": "turn", "dependencies": ["tick"], "loop": loop})
    run: Any = Run.of(*nodes, endless=True, answers={"loop": True})
    run.suspend("tick", Wait(kind="timer", until=run.now + 3), scope=(1,))
    run.pass_time(3)
    assert {run.state_of("side", (1,)), run.state_of("turn", (1,))} == {"queued"}
    run.complete("turn", {}, (1,))
    assert (run.status, run.state_of("side", (1,))) == ("completed", "cancelled")
    assert [effect.run_id for effect in run.effects if isinstance(effect, fx.ContinueRun)] == ["run~2"]


def test_a_head_whose_required_dependency_was_skipped_runs_when_its_loop_brings_it_back() -> None:
    """Its first iteration went by another way in."""
    nodes = (
        {"id": "a", "branch": pick(["b"])},
        {"id": "b"},
        {"id": "h", "dependencies": [{"node": "b", "required": True}]},
        {"id": "y", "dependencies": ["h", "a"], "join": "all"},
        {"id": "x", "dependencies": ["y"], "loop": again("h")},
        {"id": "z", "dependencies": ["x"]},
    )
    run: Any = Run.of(*nodes, answers={"branch": False, "loop": lambda question: question.evidence.loop.iteration < 2})
    run.complete("a")
    assert run.state_of("h", (1,)) == "skipped"
    run.complete("y", scope=(1,))
    run.complete("x", scope=(1,))
    assert run.state_of("h", (2,)) == "queued"
    for name in ("h", "y", "x"):
        run.complete(name, scope=(2,))
    run.complete("z")
    assert run.status == "completed"


@pytest.mark.parametrize("kept", [False, True], ids=["skipped", "kept"])
def test_a_loop_whose_looping_node_was_skipped_goes_on_when_a_retry_runs_it_after_all(kept: bool) -> None:
    """Its end had skipped what comes after it; one who has an outcome by another way keeps that (seed 465400)."""
    rule, goes_back = 1, True
    after = {"id": "y", "dependencies": ["x", "b"], "join": "any"} if kept else {"id": "y", "dependencies": ["x"]}
    run = Run.of(
        {"id": "h", "compensator": UNDO, "branch": pick(["x", "o"], ["o"])},
        {"id": "o", "compensator": UNDO},
        {"id": "x", "dependencies": [{"node": "h", "required": True}, "o"], "loop": again("h")},
        {"id": "b"},
        after,
        {"id": "f"},
        on_failure={"compensate": True},
        answers={"loop": lambda question: goes_back, "branch": lambda question: question.need.rule == rule},
    )
    run.complete("b")
    if kept:
        run.complete("y")
    run.complete("h", scope=(1,))
    assert (run.state_of("x", (1,)), run.state_of("y")) == ("skipped", "completed" if kept else "skipped")
    run.complete("o", scope=(1,))
    run.fail("f")
    for name in ("o", "h"):
        run.complete(name, scope=(1,), undo=True)
    assert run.status == "failed"
    rule = 0
    run.tell(c.Retry)
    for iteration in (1, 2):
        for name in ("h", "o", "x"):
            goes_back = iteration == 1
            run.complete(name, scope=(iteration,))
    if not kept:
        run.complete("y")
    run.complete("f")
    assert (run.status, run.state_of("y")) == ("completed", "completed")
