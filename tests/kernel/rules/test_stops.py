"""What a run ends without is told to stop: rules 25, 29. Nothing else would tell the worker that has it."""

from __future__ import annotations

import pytest

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from tests.kernel.rules.graphs import UNDO, child, effects, node, start


@pytest.mark.parametrize("compensate", [False, True])
def test_rule_29_what_a_forced_cancel_does_not_wait_for_is_told_to_stop(compensate: bool) -> None:
    """A queued attempt too: a worker may have it, though the journal does not know yet."""
    run = start(node("a", compensator=UNDO), node("b", "a"), node("d", "a"), on_failure={"compensate": compensate})
    run.complete("a")
    run.begin("b")
    run.tell(c.Cancel, force=True)
    assert run.status == ("compensating" if compensate else "cancelled")
    assert [stop.address.node for stop in effects(run, fx.Stop)] == ["b", "d"]
    assert not effects(run, fx.Recall)


@pytest.mark.parametrize("compensate", [False, True])
@pytest.mark.parametrize("force", [False, True])
def test_rule_29_what_a_cancelling_run_no_longer_waits_for_is_told_to_stop(compensate: bool, force: bool) -> None:
    """The transport may have been away when it was to be taken back."""
    run = start(node("a", compensator=UNDO), node("b", "a"), on_failure={"compensate": compensate})
    run.complete("a")
    run.tell(c.Cancel)
    assert [recall.address.node for recall in effects(run, fx.Recall)] == ["b"]
    if force:
        run.tell(c.Cancel, force=True)
    else:
        run.pass_time(30)
    assert run.status == ("compensating" if compensate else "cancelled")
    assert [stop.address.node for stop in effects(run, fx.Stop)] == ["b"]


def test_rule_25_work_that_a_failing_run_ends_without_is_told_to_stop() -> None:
    """The run waits 30 s for its children and ends then, whatever else runs: no result counts any more."""
    run = start(node("a"), node("b"), node("sub"))
    child(run, "sub")
    run.begin("b")
    run.fail("a")
    assert (run.status, effects(run, fx.Stop)) == ("failing", [])
    run.pass_time(30)
    assert run.status == "failed"
    assert [stop.address.node for stop in effects(run, fx.Stop)] == ["b"]
