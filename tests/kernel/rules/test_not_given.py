"""An approval that was not given is not got around by repair: rule 28, with 10, 36 and 39."""

import pytest

from perdure.kernel.values import Wait
from tests.kernel.rules.graphs import child, end_child, human, items, node, start
from tests.kernel.rules.test_patches import patch


@pytest.mark.parametrize("how", ["rejected", "timed out"])
def test_rule_28_an_approval_that_was_not_given_is_not_discarded_as_continue(how):
    run = start(human("ask", on_failure="park"), node("pay", "ask"))
    approval = run.ask("ask", timeout_seconds=5.0, on_timeout="fail")
    if how == "rejected":
        run.vote(approval, "reject")
    else:
        run.pass_time(6)
    assert run.state_of("ask") == "parked"
    run.discard("ask", "continue")
    assert run.refused.code == "approval_not_given"
    assert "requeue it, which asks again" in run.refused.message
    assert (run.state_of("ask"), run.state_of("pay")) == ("parked", "pending")


def test_rule_28_such_an_approval_is_asked_for_again_skipped_or_failed():
    for as_, status in (("skip", "completed"), ("fail", "failed")):
        run = start(human("ask", on_failure="park"), node("pay", "ask"))
        run.vote(run.ask("ask"), "reject")
        run.discard("ask", as_)
        assert run.status == status
        assert run.state_of("pay") in ("pending", "skipped")
    run = start(human("ask", on_failure="park"), node("pay", "ask"))
    run.vote(run.ask("ask"), "reject")
    run.requeue("ask")
    run.vote(run.ask("ask"), "approve")
    assert run.state_of("pay") == "queued"


def test_rule_28_a_map_of_approvals_is_not_discarded_as_continue_either():
    asks = {"over": [1, 2], "node": {"type": "human", "config": {}}}
    run = start(node("each", type="map", config=asks, on_failure="park"), node("pay", "each"))
    items(run, "each", 2)
    for item in (0, 1):
        run.suspend("each", Wait(kind="approval"), item=item, timeout_seconds=5.0, on_timeout="fail")
    run.pass_time(6)
    assert run.state_of("each") == "parked"
    run.discard("each", "continue")
    assert run.refused.code == "approval_not_given"
    assert run.state_of("pay") == "pending"


def test_rule_28_a_child_which_may_hold_approvals_is_not_discarded_as_continue():
    call = {"type": "workflow", "config": {"workflow": "inner"}, "on_failure": "park"}
    run = start(node("call", **call), node("pay", "call"))
    end_child(run, child(run, "call"), "failed")
    run.discard("call", "continue")
    assert run.refused.code == "approval_not_given"
    run.discard("call", "skip")
    assert run.state_of("pay") == "skipped"


def test_rule_28_a_node_whose_join_failed_is_neither_requeued_nor_continued():
    """Two of two have to approve, and one said no: who requeued what they guard had it executed."""
    graph = (human("a"), human("b"), node("pay", "a", "b", join={"at_least": 2}, on_failure="park"), node("z", "pay"))
    run = start(*graph)
    approval, _ = run.ask("a"), run.ask("b")
    run.vote(approval, "reject")
    assert run.state_of("pay") == "parked"
    run.requeue("pay")
    assert run.refused.code == "join_failed"
    run.discard("pay", "continue")
    assert run.refused.code == "join_failed"
    easier = (*graph[:2], {**graph[2], "join": "any"}, graph[3])
    patch(run, *easier)
    run.requeue("pay")
    assert run.refused is not None
    assert (run.state_of("pay"), run.state_of("z")) == ("parked", "pending")
    run.discard("pay", "skip")
    assert run.state_of("z") == "skipped"


def test_rule_39_an_approval_that_a_patch_parks_is_not_got_around():
    run = start(node("go"), human("ask", "go"), node("pay", "ask"))
    patch(run, node("go"), human("ask", "go", on_failure="park", total_timeout_seconds=1), node("pay", "ask"))
    run.complete("go")
    run.ask("ask")
    run.pass_time(5)
    assert (run.state_of("ask"), run.get("ask").error.code) == ("parked", "total_timeout")
    run.discard("ask", "continue")
    assert run.refused.code == "approval_not_given"
    assert run.state_of("pay") == "pending"


def test_rule_39_a_patch_names_another_child_until_it_has_started_and_says_who_did():
    def call(workflow):
        return node("call", "go", type="workflow", config={"workflow": workflow})

    run = start(node("go"), call("asker"), node("pay", "call"))
    patch(run, node("go"), call("other"), node("pay", "call"))
    assert (run.refused, run.events("run.patched")[0].by) == (None, "ann")
    run.complete("go")
    assert run.state.pinned(run.get("call")).config["workflow"] == "other"
    child_id = child(run, "call")
    patch(run, node("go"), call("third"), node("pay", "call"))
    assert run.state.pinned(run.get("call")).config["workflow"] == "other"
    assert run.get("call").child == child_id
