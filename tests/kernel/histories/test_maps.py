"""Histories of maps that once went wrong."""

from __future__ import annotations

from perdure.kernel import commands as c
from perdure.kernel.values import Wait
from tests.kernel.driver import Run
from tests.kernel.histories.helpers import MAP, UNDO, again


def test_trying_a_map_again_runs_items_that_its_failure_cancelled() -> None:
    run = Run.of({"id": "m", **MAP, "on_failure": "park"})
    run.suspend("m", Wait(kind="items", count=3))
    run.complete("m", item=0)
    run.fail("m", item=1)
    assert run.state_of("m", item=2) == "cancelled"
    run.requeue("m")
    run.suspend("m", Wait(kind="items", count=3))
    assert run.dispatched() == {"m#1", "m#2"}
    run.complete("m", item=1)
    run.complete("m", item=2)
    assert run.status == "completed"


def test_a_map_whose_items_were_compensated_does_them_again() -> None:
    item = {"type": "task", "config": {"function": "m:f"}, "compensator": UNDO}
    run = Run.of(
        {"id": "m", "type": "map", "config": {"over": "{{ inputs.x }}", "node": item}},
        {"id": "b", "dependencies": ["m"]},
        on_failure={"compensate": True},
    )
    run.suspend("m", Wait(kind="items", count=1))
    run.complete("m", item=0)
    run.fail("b")
    run.complete("m", item=0, undo=True)
    run.tell(c.Retry)
    assert run.state_of("m") == "queued"
    run.suspend("m", Wait(kind="items", count=1))
    run.complete("m", item=0)
    run.complete("b")
    assert run.status == "completed"


def test_a_map_that_runs_out_of_time_takes_its_items_with_it() -> None:
    run = Run.of(
        {"id": "m", **MAP, "total_timeout_seconds": 5, "on_failure": "continue"}, {"id": "b", "dependencies": ["m"]}
    )
    run.suspend("m", Wait(kind="items", count=2))
    run.pass_time(5)
    assert run.state_of("m", item=0) == run.state_of("m", item=1) == "cancelled"
    run.complete("b")
    assert run.status == "completed"


def test_a_map_that_loses_a_race_takes_its_items_with_it() -> None:
    run = Run.of(
        {"id": "m", **MAP},
        {"id": "b"},
        {"id": "j", "dependencies": ["m", "b"], "join": {"at_least": 1, "cancel_rest": True}},
    )
    run.suspend("m", Wait(kind="items", count=2))
    run.complete("b")
    run.complete("j")
    assert run.status == "completed"


def test_an_at_most_once_map_that_a_closing_iteration_waits_for_keeps_its_items() -> None:
    run = Run.of(
        {"id": "h"},
        {"id": "m", **MAP, "dependencies": ["h"], "effect": "at_most_once"},
        {"id": "x", "dependencies": ["h"], "loop": again("h")},
        answers={"loop": False},
    )
    run.complete("h", scope=(1,))
    run.begin("m", (1,))
    run.suspend("m", Wait(kind="items", count=1), (1,))
    run.complete("x", scope=(1,))
    assert run.state_of("m", (1,), item=0) == "queued"
    run.complete("m", scope=(1,), item=0)
    assert run.status == "completed"


def test_an_item_is_not_repaired_while_its_map_does_not_wait() -> None:
    item = {"type": "task", "config": {"function": "m:f"}, "effect": "at_most_once"}
    run = Run.of({"id": "m", "type": "map", "config": {"over": "{{ inputs.x }}", "node": item}}, {"id": "f"})
    run.suspend("m", Wait(kind="items", count=1))
    run.begin("m", item=0)
    run.lapse("m", item=0)
    run.fail("f")
    run.tell(c.Retry)
    assert run.state_of("m", item=0) == "parked"
    run.requeue("m", item=0)
    assert run.refused is not None
    run.suspend("m", Wait(kind="items", count=1))
    run.requeue("m", item=0)
    assert run.state_of("m", item=0) == "queued"
