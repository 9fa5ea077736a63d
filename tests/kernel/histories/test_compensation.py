"""Histories of compensation that once went wrong."""

from __future__ import annotations

from perdure.kernel import commands as c
from perdure.kernel.values import Wait
from tests.kernel.driver import Run
from tests.kernel.histories.helpers import UNDO


def test_what_was_completed_twice_is_compensated_once() -> None:
    item = {"type": "task", "config": {"function": "m:f"}, "compensator": UNDO}
    run = Run.of(
        {"id": "m", "type": "map", "config": {"over": "{{ inputs.x }}", "node": item}, "compensator": UNDO},
        {"id": "b", "dependencies": ["m"]},
        on_failure={"compensate": True},
    )
    run.suspend("m", Wait(kind="items", count=1))
    run.complete("m", item=0)
    run.fail("b")
    run.fail("m", undo=True)
    run.discard("m", undo=True)
    run.complete("m", item=0, undo=True)
    run.tell(c.Retry)
    run.suspend("m", Wait(kind="items", count=1))
    run.complete("m", item=0)
    run.fail("b")
    run.complete("m", undo=True)
    run.complete("m", item=0, undo=True)
    assert run.status == "failed"


def test_attempts_of_a_compensation_never_fall_however_often_a_run_is_rolled_back() -> None:
    run = Run.of({"id": "a", "compensator": UNDO})
    run.complete("a")
    run.tell(c.Rollback)
    run.tell(c.Cancel, force=True)
    run.tell(c.Rollback)
    assert [event.attempt for event in run.events("node.compensating")] == [1, 2]
    run.complete("a", undo=True)
    assert run.status == "rolled_back"
