"""Holes that were found on paper in the design of asks and agents, and that stood open in the kernel then: docs/internals/holes.md."""

import pytest

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.values import Ask
from tests.kernel.driver import compiled
from tests.kernel.rules.graphs import effects, end_child, human, node, start, violations


@pytest.mark.parametrize("end", ["reject", "timeout"])
def test_h1_a_new_edge_leads_around_no_approval_whatever_becomes_of_it(end):
    """`pay` waits for `h`. With another edge, its `all` join would fire on it once `h` is skipped or rejected."""
    graph = [node("a"), human("h", timeout_seconds=60, rejection_path=["no"]), node("no", "h"), node("pay", "h")]
    run = start(*graph)
    run.ask("h")
    around = [*graph[:-1], node("pay", "h", "n"), node("n", "a")]
    refused = run.tell(c.Patch, ir=compiled(*around))
    assert isinstance(refused, c.Refused)
    assert "it would run without it" in refused.message
    if end == "reject":
        run.vote(run.get("h").wait.name, "reject", "ann")
    else:
        run.pass_time(60)
    run.complete("a", 1)
    assert run.state_of("pay") in ("skipped", "pending")
    assert violations(run) == []


def test_h7_a_step_has_one_result_whoever_brings_another():
    run = start(node("a"))
    run.checkpoint("a", data={"paid": 1}, step="pay", number=1)
    before = len(run.journal)
    run.checkpoint("a", data={"paid": 2}, step="pay", number=2)
    assert len(run.journal) == before
    run.checkpoint("a", data="mine", number=3)
    assert run.get("a").checkpoint == {"data": "mine", "steps": {"pay": {"paid": 1}}}


def test_h7_a_worker_forges_no_answer_of_a_person():
    run = start(node("a"))
    run._command(c.AskFor, "a", (), None, asks=(Ask(name="ok", kind="approval", approvers=("ann",)),))
    run.vote(run.get("a").asks["ok"].approval, "reject", "ann")
    run.checkpoint("a", data={"decision": "approve"}, step="ok", number=1)
    assert "approve" not in str(run.get("a").checkpoint)
    assert violations(run) == []


def test_h9_a_failing_run_stops_its_children_and_waits_for_them():
    run = start(node("a"), {"id": "call", "type": "workflow", "config": {"workflow": "inner"}}, node("b"))
    run._command(c.AskFor, "b", (), None, asks=(Ask(name="sub", kind="child", workflow="inner"),))
    run.fail("a")
    assert run.state.state == "failing"
    assert [effect.child for effect in effects(run, fx.StopChild)] == ["run:b~~~sub"]
    end_child(run, "run:b~~~sub", "cancelled")
    run.lapse("call")
    assert run.state.state == "failed"
    assert violations(run) == []
