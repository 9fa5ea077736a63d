"""An approval that was not given is not got around by repair: rule 28, with 10, 36 and 39."""

import pytest

from perdure.invariants import Checker
from perdure.kernel import commands as c
from perdure.kernel import events as e
from perdure.kernel.values import Error, Wait
from tests.kernel.rules.graphs import child, end_child, human, items, node, pick, start
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


# -- maps of approvals -------------------------------------------------------------------------------------------------


def asks(over=(1, 2), **more):
    """A map that asks for each item."""
    config = {"over": list(over), "node": {"type": "human", "config": {"approvers": ["carl"]}}, **more}
    return node("each", type="map", config=config)


def ask_items(run, count=2, **wait):
    items(run, "each", count, **wait)
    for item in range(count):
        run.suspend("each", Wait(kind="approval"), item=item, approvers=("carl",))
    return list(run.state.approvals)


def test_rule_36_an_item_that_is_rejected_has_failed():
    run = start(asks(), node("pay", "each"))
    first, second = ask_items(run)
    run.vote(first, "approve", by="carl")
    run.vote(second, "reject", by="carl")
    assert run.events("item.failed")[0].error.code == "rejected"
    assert (run.status, run.state_of("pay")) == ("failed", "pending")
    assert "was rejected by carl" in run.state.error.message


def test_rule_36_a_rejected_item_counts_among_those_that_are_tolerated():
    run = start(asks(tolerated_failures=1), node("pay", "each"))
    first, second = ask_items(run, tolerated=1)
    run.vote(first, "reject", by="carl")
    run.vote(second, "approve", by="carl")
    assert run.state_of("pay") == "queued"


def test_rule_36_a_rejected_item_is_asked_again_when_its_run_is_retried():
    run = start(asks(), node("pay", "each"))
    first, second = ask_items(run)
    run.vote(first, "approve", by="carl")
    run.vote(second, "reject", by="carl")
    run.tell(c.Retry)
    items(run, "each", 2)
    run.suspend("each", Wait(kind="approval"), item=1, approvers=("carl",))
    pending = [name for name, one in run.state.approvals.items() if one.state == "pending"]
    run.vote(pending[0], "approve", by="carl")
    assert run.state_of("pay") == "queued"


@pytest.mark.parametrize(
    "instead",
    [
        [asks(), node("pay")],
        [asks(over=()), node("pay", "each")],
        [asks(tolerated_failures=2), node("pay", "each")],
        [node("each", type="map", config={"over": [1], "node": {"type": "task", "config": {}}}), node("pay", "each")],
        [human("each", config={"approvers": ["me"]}), node("pay", "each")],
        [{**asks(), "on_failure": "continue"}, node("pay", "each")],
    ],
)
def test_rule_39_a_patch_leads_around_no_map_of_approvals(instead):
    before = node("go")
    wired = {**asks(), "dependencies": ["go"]}
    run = start(before, wired, node("pay", "each"))
    after = [{**one, "dependencies": ["go"]} if one["id"] == "each" else one for one in instead]
    patch(run, before, *after)
    assert run.refused is not None
    assert "approval" in run.refused.message


def test_rule_39_what_a_map_of_approvals_shows_may_change():
    wired = {**asks(), "dependencies": ["go"]}
    run = start(node("go"), wired, node("pay", "each"))
    shown = {"type": "human", "config": {"approvers": ["carl"], "title": "Pay this?"}}
    patch(run, node("go"), {**wired, "config": {**wired["config"], "node": shown}}, node("pay", "each"))
    assert run.refused is None


def test_rule_28_a_map_of_approvals_is_not_requeued_over_nothing():
    run = start({**asks(), "on_failure": "park"}, node("pay", "each"))
    for name in ask_items(run):
        run.vote(name, "reject", by="carl")
    run.requeue("each", config={**asks()["config"], "over": []})
    assert "'over' cannot change" in run.refused.message


# -- children ----------------------------------------------------------------------------------------------------------


def test_rule_28_a_child_that_has_started_is_not_exchanged_by_a_requeue():
    """It asked somebody, who said no; the other one asks nobody."""
    call = {"type": "workflow", "config": {"workflow": "inner"}, "on_failure": "park"}
    run = start(node("call", **call), node("pay", "call"))
    end_child(run, child(run, "call"), "failed")
    for config in ({"workflow": "asks-nobody"}, {"workflow": "inner@2"}, {}):
        run.requeue("call", config=config)
        assert run.refused.code == "patch_refused"
        assert "has started 'inner', which stays" in run.refused.message
    run.requeue("call", config={"workflow": "inner", "inputs": {"x": 1}})
    assert (run.refused, run.state_of("call")) == (None, "queued")


def test_rule_28_one_that_never_started_may_be_another():
    call = {"type": "workflow", "config": {"workflow": "innr"}, "on_failure": "park", "retry": {"max_attempts": 1}}
    run = start(node("call", **call), node("pay", "call"))
    run.fail("call")
    run.requeue("call", config={"workflow": "inner"})
    assert (run.refused, run.state_of("call")) == (None, "queued")


TWO = {"at_least": 2}


def blamed(run):
    checker = Checker(run.state.library)
    return [found for event in run.journal for found in checker.feed(event)]


def test_rule_28_a_node_whose_join_failed_does_not_run_by_being_discarded_as_a_failure_and_retried():
    """Whoever may discard and retry had `pay` executed, which `ask` had refused."""
    run = start(human("ask"), node("b"), node("pay", "ask", "b", join=TWO, on_failure="park"))
    run.complete("b")
    run.vote(run.ask("ask"), "reject")
    assert run.state_of("pay") == "parked"
    run.discard("pay", "fail")
    assert (run.status, run.state_of("pay")) == ("failed", "failed")
    run.tell(c.Retry)
    assert (run.state_of("ask"), run.state_of("pay")) == ("queued", "pending")
    run.vote(run.ask("ask"), "approve")
    assert (run.state_of("pay"), blamed(run)) == ("queued", [])


def test_rule_28_nor_because_what_goes_on_from_its_failure_cannot_be_told():
    pay = node("pay", "ask", "b", join=TWO, on_failure="continue", branch=pick(["z"]))
    run = start(human("ask"), node("b"), pay, node("z"), answers={"branch": Error("bad", "no such key")})
    run.complete("b")
    run.vote(run.ask("ask"), "reject")
    assert (run.status, run.state_of("pay")) == ("failed", "failed")
    run.tell(c.Retry)
    assert (run.state_of("ask"), run.state_of("pay"), blamed(run)) == ("queued", "pending", [])


def test_rule_28_nor_because_a_join_behind_it_failed_too():
    """`pay` was let off its failure, and `j`, which could not do with that, had it run."""
    pay = node("pay", "ask", "b", join=TWO, on_failure="continue")
    run = start(human("ask"), node("b"), pay, node("j", "pay", join="any"))
    run.complete("b")
    run.vote(run.ask("ask"), "reject")
    assert (run.status, run.state_of("pay"), run.state_of("j")) == ("failed", "failed", "upstream_failed")
    run.tell(c.Retry)
    assert (run.state_of("ask"), run.state_of("pay"), run.state_of("j")) == ("queued", "pending", "pending")
    run.vote(run.ask("ask"), "approve")
    run.complete("pay")
    run.complete("j")
    assert (run.status, blamed(run)) == ("completed", [])


def test_rule_28_nor_by_an_edge_that_a_patch_brings():
    graph = (human("ask"), node("b"), node("x"))
    run = start(*graph, node("pay", "ask", "b", join=TWO, on_failure="park"))
    run.complete("b")
    run.complete("x")
    run.vote(run.ask("ask"), "reject")
    patch(run, *graph, node("pay", "ask", "b", "x", join=TWO, on_failure="park"))
    assert "'pay' runs only after the approval 'ask'" in run.refused.message
    patch(
        run,
        *graph,
        node("y", "x"),
        node("pay", "ask", "b", {"node": "y", "required": True}, join={"at_least": 3}, on_failure="park"),
    )
    run.complete("y")
    run.requeue("pay")
    assert (run.refused.code, run.state_of("pay")) == ("join_failed", "parked")


def test_the_checker_sees_a_node_run_whose_join_failed():
    run = start(human("ask"), node("b"), node("pay", "ask", "b", join=TWO, on_failure="park"))
    run.complete("b")
    run.vote(run.ask("ask"), "reject")
    checker = Checker(run.state.library)
    for event in run.journal:
        assert checker.feed(event) == []
    seq = run.journal[-1].seq
    assert checker.feed(e.NodeRequeued(seq=seq + 1, at=run.now, counter=1, node="pay", visit=1)) == []
    found = checker.feed(e.NodeScheduled(seq=seq + 2, at=run.now, counter=1, node="pay", visit=1, attempt=1))
    assert [one.id for one in found] == ["E2"]
