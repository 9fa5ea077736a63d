"""Waits, children, maps, signals: rules 35 to 40."""

import pytest

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.address import Address
from perdure.kernel.child_runs import child_failure
from perdure.kernel.values import Error, Wait
from tests.kernel.rules.graphs import (
    AGAIN,
    again,
    child,
    effects,
    end_child,
    human,
    items,
    node,
    start,
)

CHILD = {"id": "w", "type": "workflow", "config": {"workflow": "inner"}}
MAP = {"id": "m", "type": "map", "config": {"over": "{{ inputs.list }}", "node": {"type": "task", "config": {}}}}


def test_rule_35_a_child_wait_names_the_child_and_its_generation():
    run = start(CHILD, node("z", "w"))
    inner = child(run, "w", inputs={"n": 1})
    assert run.get("w").wait == Wait(kind="child", name=inner, generation=1)
    asked = effects(run, fx.StartChild)[0]
    assert (asked.child, asked.workflow, asked.inputs, asked.generation) == (inner, "inner", {"n": 1}, 1)
    end_child(run, inner, "completed", output={"n": 2})
    assert run.get("w").output == {"n": 2}
    assert run.state_of("z") == "queued"


def test_rule_35_the_end_of_a_generation_is_heard_once():
    run = start(CHILD, node("z", "w"))
    inner = child(run, "w")
    end_child(run, inner, "completed", output=1)
    end_child(run, inner, "completed", output=2)
    assert run.get("w").output == 1
    assert len(run.events("child.ended")) == 1


def test_rule_35_a_cancelled_child_is_child_cancelled_and_not_retried():
    run = start({**CHILD, "retry": {"max_attempts": 5}})
    end_child(run, child(run, "w"), "cancelled")
    assert run.status == "failed"
    assert run.state.error.code == "child_cancelled"
    assert "node.retrying" not in run.types()


def test_rule_35_a_failed_child_fails_the_attempt():
    run = start(CHILD)
    end_child(run, child(run, "w"), "failed", error=Error("broken"))
    assert run.status == "failed"
    assert run.state.error.code == "child_failed"
    assert "broken" in run.state.error.message


@pytest.mark.parametrize(
    ("said", "becomes"),
    [
        ("r1:w:x failed: broken: no luck", "r1:w failed: broken: no luck (in r1:w:x)"),
        ("r1:w:x failed: broken: no luck (in r1:w:x:y:z)", "r1:w failed: broken: no luck (in r1:w:x:y:z)"),
        ("r1:w:x failed: broken: no file (in /tmp)", "r1:w failed: broken: no file (in /tmp) (in r1:w:x)"),
        ("r1:w:x failed", "r1:w failed: child_failed: r1:w:x failed"),
        ("x failed: raised by a function", "r1:w failed: child_failed: x failed: raised by a function"),
    ],
)
def test_rule_35_the_failure_of_a_child_says_what_failed_first_and_where(said, becomes):
    assert child_failure("r1:w", Error("child_failed", said)).message == becomes


def test_rule_35_a_long_message_leaves_room_for_the_place():
    error, child = Error("broken", "x" * 1_000, details={"frames": []}), "r1" + ":w" * 50
    for _ in range(50):
        error = child_failure(child, error)
        child = child.removesuffix(":w")
        assert len(error.message) <= 1_000
    assert error.message.startswith("r1:w failed: broken: xxx")
    assert error.message.endswith(f"x (in r1{':w' * 50})")
    assert error.details == {"frames": []}


def test_rule_35_retrying_the_node_retries_the_child():
    run = start({**CHILD, "retry": {"max_attempts": 2}})
    inner = child(run, "w")
    end_child(run, inner, "failed", error=Error("broken"))
    assert run.state_of("w") == "retrying"
    run.pass_time(60)
    assert child(run, "w") == inner
    assert run.get("w").wait == Wait(kind="child", name=inner, generation=2)
    end_child(run, inner, "completed", generation=1)
    assert run.state_of("w") == "waiting"
    end_child(run, inner, "completed", generation=2)
    assert run.status == "completed"


def test_rule_35_retrying_the_run_retries_the_child():
    run = start(CHILD)
    inner = child(run, "w")
    end_child(run, inner, "failed")
    run.tell(c.Retry)
    assert child(run, "w") == inner
    assert effects(run, fx.StartChild)[0].generation == 2


def test_rule_35_a_parked_parent_is_released_by_the_childs_later_success():
    run = start({**CHILD, "on_failure": "park"}, node("z", "w"))
    inner = child(run, "w")
    end_child(run, inner, "failed")
    assert run.state_of("w") == "parked"
    end_child(run, inner, "failed", generation=2)
    assert run.state_of("w") == "parked"
    end_child(run, inner, "completed", generation=3, output="late")
    assert run.get("w").output == "late"
    assert run.state_of("z") == "queued"


def test_rule_35_the_end_of_a_child_run_tells_its_parent():
    parent = ("outer", "w", (), None)
    run = start(node("a"), parent=parent)
    run.complete("a")
    assert effects(run, fx.NotifyParent) == [fx.NotifyParent(parent=parent)]
    run = start(node("a"), parent=parent)
    run.fail("a")
    assert effects(run, fx.NotifyParent) == [fx.NotifyParent(parent=parent)]


def test_rule_35_cancelling_the_parent_stops_the_child_and_waits_for_it():
    run = start(CHILD)
    inner = child(run, "w")
    run.tell(c.Cancel)
    assert [stop.child for stop in effects(run, fx.StopChild)] == [inner]
    assert run.status == "cancelling"
    end_child(run, inner, "cancelled")
    assert run.status == "cancelled"


def test_rule_35_a_child_stopped_before_it_began_has_ended_no_generation():
    run = start(CHILD, node("a"))
    inner = child(run, "w")
    run.fail("a")
    assert [stop.child for stop in effects(run, fx.StopChild)] == [inner]
    end_child(run, inner, "cancelled", begun=False)
    assert (run.status, run.get("w").error.code) == ("failed", "child_cancelled")
    assert "child.ended" not in run.types()
    run.tell(c.Retry)
    assert child(run, "w") == inner
    assert effects(run, fx.StartChild)[0].generation == 1
    end_child(run, inner, "cancelled", begun=False)  # of the stop before, which is over
    assert run.state_of("w") == "waiting"


def test_rule_36_an_item_is_an_activation_with_its_own_attempts_and_retry():
    run = start(MAP, node("z", "m"))
    items(run, "m", 2)
    assert run.dispatched() == {"m#0", "m#1"}
    run.fail("m", item=1, retryable=True)
    assert (run.state_of("m", item=0), run.state_of("m", item=1)) == ("queued", "retrying")
    run.pass_time(60)
    assert (run.get("m", item=0).attempt, run.get("m", item=1).attempt) == (1, 2)
    run.complete("m", "b", item=1)
    run.complete("m", "a", item=0)
    assert run.get("m").output == ["a", "b"]
    assert run.state_of("z") == "queued"


def test_rule_36_an_item_has_its_own_key_and_lease():
    run = start(MAP)
    items(run, "m", 2)
    assert Address("run", "m", (), 0).idempotency_key() != Address("run", "m", (), 1).idempotency_key()
    run.begin("m", item=0)
    run.lapse("m", item=0)
    assert (run.get("m", item=0).crashes, run.get("m", item=1).crashes) == (1, 0)


def test_rule_36_an_item_has_its_own_dead_letter():
    once = {"type": "task", "config": {}, "effect": "at_most_once"}
    run = start({"id": "m", "type": "map", "config": {"over": "{{ inputs.list }}", "node": once}})
    items(run, "m", 2)
    run.begin("m", item=0)
    run.lapse("m", item=0)
    assert run.state_of("m", item=0) == "parked"
    run.begin("m", item=1)
    run.complete("m", "b", item=1)
    assert run.state_of("m") == "waiting"
    run.requeue("m", item=0)
    run.begin("m", item=0)
    run.complete("m", "a", item=0)
    assert run.get("m").output == ["a", "b"]


@pytest.mark.parametrize(("how", "outcome"), [("skip", "completed"), ("fail", "failed"), ("continue", "failed")])
def test_rule_36_a_parked_item_may_be_discarded(how, outcome):
    once = {"type": "task", "config": {}, "effect": "at_most_once"}
    run = start({"id": "m", "type": "map", "config": {"over": "{{ inputs.list }}", "node": once}})
    items(run, "m", 1)
    run.begin("m", item=0)
    run.lapse("m", item=0)
    run.discard("m", how, item=0)
    assert run.status == outcome


def test_rule_36_at_most_so_many_items_at_once():
    run = start(MAP)
    items(run, "m", 3, limit=2)
    assert run.dispatched() == {"m#0", "m#1"}
    run.complete("m", item=0)
    assert run.dispatched() == {"m#2"}


def test_rule_36_tolerated_failures_do_not_fail_the_map():
    run = start(MAP)
    items(run, "m", 3, tolerated=1)
    run.fail("m", "broken", item=1)
    run.complete("m", "a", item=0)
    run.complete("m", "c", item=2)
    assert run.status == "completed"
    assert run.get("m").output[1]["error"]["code"] == "broken"


def test_rule_36_one_failure_too_many_fails_the_map_and_cancels_the_rest():
    run = start(MAP)
    items(run, "m", 3, tolerated=1)
    run.fail("m", item=1)
    run.fail("m", item=2)
    assert run.state_of("m") == "failed"
    assert run.state_of("m", item=0) == "cancelled"
    assert run.state.error.code == "items_failed"


def test_rule_36_an_empty_map_is_done_at_once():
    run = start(MAP)
    items(run, "m", 0)
    assert run.status == "completed"
    assert run.get("m").output == []


def test_rule_36_retry_of_the_run_runs_failed_items_only():
    run = start(MAP)
    items(run, "m", 3, limit=1)
    run.complete("m", "a", item=0)
    run.fail("m", item=1)
    assert run.status == "failed"
    run.tell(c.Retry)
    assert run.dispatched() == {"m"}
    items(run, "m", 3, limit=1)
    assert run.dispatched() == {"m#1"}
    run.complete("m", "b", item=1)
    assert run.dispatched() == {"m#2"}
    run.complete("m", "c", item=2)
    assert run.get("m").output == ["a", "b", "c"]
    assert run.get("m", item=0).attempt == 1


def test_rule_36_requeue_of_a_parked_map_runs_failed_items_only():
    run = start({**MAP, "on_failure": "park"})
    items(run, "m", 2)
    run.complete("m", "a", item=0)
    run.fail("m", item=1)
    assert run.state_of("m") == "parked"
    run.requeue("m")
    items(run, "m", 2)
    assert run.dispatched() == {"m#1"}
    run.complete("m", "b", item=1)
    assert run.get("m").output == ["a", "b"]


def test_rule_36_a_paused_run_holds_items_back():
    run = start(MAP, node("z", "m"))
    run.begin("m")
    run.tell(c.Pause)
    items(run, "m", 3, limit=2)
    assert [run.state_of("m", item=i) for i in range(3)] == ["held", "held", "pending"]
    run.tell(c.Resume)
    assert run.dispatched() == {"m#0", "m#1"}


def signal_wait(*names):
    return start(*(node(name) for name in names), node("z", *names))


def test_rule_37_signals_are_journaled_and_taken_by_who_waits():
    run = signal_wait("a")
    run.suspend("a", Wait(kind="signal", name="go"))
    run.tell(c.Signal, name="go", payload={"n": 1}, by="ann")
    event = run.events("run.signalled")[0]
    assert (event.name, event.payload, event.by) == ("go", {"n": 1}, "ann")
    assert run.get("a").output == {"n": 1}
    assert run.state.signals == []


def test_rule_37_a_signal_that_came_before_the_wait_is_taken():
    run = signal_wait("a")
    run.tell(c.Signal, name="go", payload=1)
    run.suspend("a", Wait(kind="signal", name="go"))
    assert run.get("a").output == 1


def test_rule_37_first_in_first_out_per_name():
    run = signal_wait("a", "b")
    for payload in (1, 2):
        run.tell(c.Signal, name="other", payload=-payload)
        run.tell(c.Signal, name="go", payload=payload)
    run.suspend("a", Wait(kind="signal", name="go"))
    run.suspend("b", Wait(kind="signal", name="go"))
    assert (run.get("a").output, run.get("b").output) == (1, 2)
    assert [payload for _, _, payload in run.state.signals] == [-1, -2]


def test_rule_37_who_waited_longest_is_first():
    run = signal_wait("a", "b")
    run.suspend("b", Wait(kind="signal", name="go"))
    run.suspend("a", Wait(kind="signal", name="go"))
    run.tell(c.Signal, name="go", payload=1)
    assert (run.state_of("a"), run.state_of("b")) == ("waiting", "completed")


def test_rule_37_a_signal_is_consumed_once():
    run = start(node("s"), node("x", "s", loop=again("s")))
    run.tell(c.Signal, name="go", payload=1)
    run.suspend("s", Wait(kind="signal", name="go"), (1,))
    run.complete("x", AGAIN, (1,))
    run.suspend("s", Wait(kind="signal", name="go"), (2,))
    assert run.state_of("s", (2,)) == "waiting"


def test_rule_37_the_same_signal_sent_twice_is_one():
    run = signal_wait("a")
    run.tell(c.Signal, name="go", payload=1, signal="id-1")
    run.tell(c.Signal, name="go", payload=1, signal="id-1")
    assert len(run.events("run.signalled")) == 1


def test_rule_37_after_the_end_signals_are_refused():
    run = start(node("a"))
    run.complete("a")
    run.tell(c.Signal, name="go")
    assert run.refused.code == "run_ended"


def test_rule_37_a_signal_that_does_not_come_in_time():
    run = signal_wait("a")
    run.suspend("a", Wait(kind="signal", name="go", until=run.now + 10))
    run.pass_time(10)
    assert run.state.error.code == "signal_timeout"


def test_rule_37_a_signal_while_failing_is_kept_for_the_next_generation():
    run = start(node("a"), node("s"), node("slow"))
    run.suspend("s", Wait(kind="signal", name="go"))
    run.begin("slow")
    run.fail("a")
    run.tell(c.Signal, name="go", payload=1)
    assert run.state_of("s") == "waiting"
    run.complete("slow")
    run.tell(c.Retry)
    run.suspend("s", Wait(kind="signal", name="go"))
    assert run.get("s").output == 1


def test_rule_38_votes_are_events():
    run = start(human("ask"))
    approval = run.ask("ask", approvers=("ann", "bob"), quorum=2)
    run.vote(approval, "approve", by="ann", comments="yes")
    event = run.events("approval.voted")[0]
    assert (event.decision, event.by, event.comments) == ("approve", "ann", "yes")
    assert run.state_of("ask") == "waiting"


def test_rule_38_decided_at_k_approvals():
    run = start(human("ask"), node("z", "ask"))
    approval = run.ask("ask", approvers=("ann", "bob", "cat"), quorum=2)
    run.vote(approval, "reject", by="cat")
    run.vote(approval, "approve", by="ann")
    assert run.state_of("ask") == "waiting"
    run.vote(approval, "approve", by="bob")
    assert run.get("ask").output["decision"] == "approve"
    assert run.state_of("z") == "queued"


def test_rule_38_who_votes_for_a_role_is_named_and_votes_once():
    run = start(human("ask"))
    approval = run.ask("ask", approvers=("role:finance", "role:legal", "bob"), quorum=2)
    run.tell(c.Vote, approval=approval, decision="approve", by="bob", approver="role:finance")
    assert (run.events("approval.voted")[0].by, run.events("approval.voted")[0].person) == ("role:finance", "bob")
    for seat in ("role:legal", None):
        run.tell(c.Vote, approval=approval, decision="approve", by="bob", approver=seat)
        assert run.refused.code == "already_voted"
    run.tell(c.Vote, approval=approval, decision="approve", by="ann", approver="role:legal")
    assert run.get("ask").output["decided_by"] == "ann"


def test_rule_38_who_is_asked_may_ask_somebody_else_instead():
    run = start(human("ask"), node("z", "ask"))
    approval = run.ask("ask", approvers=("ann", "bob"), quorum=2)
    run.tell(c.Delegate, approval=approval, by="ann", to="cat", comments="on holiday")
    run.vote(approval, "approve", by="ann")
    assert run.refused.code == "not_an_approver"
    run.vote(approval, "approve", by="cat")
    run.vote(approval, "approve", by="bob")
    assert run.state_of("z") == "queued"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"by": "eve", "to": "cat"}, "not_an_approver"),
        ({"by": "ann", "to": "bob"}, "bad_delegate"),
        ({"by": "ann", "to": ""}, "bad_delegate"),
        ({"by": "bob", "to": "cat"}, "already_voted"),
    ],
)
def test_rule_38_only_a_vote_one_still_has_can_be_handed_over_and_only_to_somebody_new(fields, code):
    run = start(human("ask"))
    approval = run.ask("ask", approvers=("ann", "bob"), quorum=2)
    run.vote(approval, "approve", by="bob")
    run.tell(c.Delegate, approval=approval, **fields)
    assert run.refused.code == code


def test_rule_38_who_handed_a_seat_over_has_no_other():
    run = start(human("ask"), node("z", "ask"))
    seats = ("bob", "role:approver", "role:legal")
    approval = run.ask(
        "ask", approvers=seats, quorum=2, on_timeout="escalate", escalate_to=("bob",), timeout_seconds=9.0
    )
    run.tell(c.Delegate, approval=approval, by="bob", to="mallory")
    run.vote(approval, "approve", by="bob", approver="role:approver")
    assert run.refused.code == "already_delegated"
    run.tell(c.Delegate, approval=approval, by="bob", approver="role:legal", to="trudy")
    assert run.refused.code == "already_delegated"
    run.tell(c.Delegate, approval=approval, by="mallory", to="bob")
    assert run.refused.code == "bad_delegate"
    run.vote(approval, "approve", by="mallory")
    assert run.state_of("ask") == "waiting"
    run.pass_time(10)
    run.vote(approval, "approve", by="bob")  # he is asked anew, in his own name
    assert run.state_of("z") == "queued"


def test_rule_38_where_anybody_may_decide_there_is_nothing_to_hand_over():
    run = start(human("ask"))
    approval = run.ask("ask")
    run.tell(c.Delegate, approval=approval, by="ann", to="bob")
    assert run.refused.code == "anybody_may_decide"


def test_rule_38_rejected_as_soon_as_k_cannot_be_reached():
    run = start(human("ask", rejection_path=["no"]), node("no"))
    approval = run.ask("ask", approvers=("ann", "bob", "cat"), quorum=2)
    run.vote(approval, "reject", by="ann")
    assert run.state_of("ask") == "waiting"
    run.vote(approval, "reject", by="bob")
    assert run.get("ask").output["decision"] == "reject"


def test_rule_38_one_decision_only_while_pending_by_someone_allowed_to():
    run = start(human("ask"), node("z", "ask"))
    approval = run.ask("ask", approvers=("ann", "bob"), quorum=2)
    run.vote(approval, "approve", by="eve")
    assert run.refused.code == "not_an_approver"
    run.vote(approval, "approve", by="ann")
    run.vote(approval, "approve", by="ann")
    assert run.refused.code == "already_voted"
    run.vote(approval, "approve", by="bob")
    run.vote(approval, "reject", by="bob")
    assert run.refused.code == "already_decided"


@pytest.mark.parametrize(("on_timeout", "decision"), [("approve", "approve"), ("reject", "reject")])
def test_rule_38_a_timeout_decides_if_still_pending(on_timeout, decision):
    run = start(human("ask", rejection_path=["no"]), node("no"), node("yes", "ask"))
    run.ask("ask", timeout_seconds=10, on_timeout=on_timeout)
    run.pass_time(9)
    assert run.state_of("ask") == "waiting"
    run.pass_time(1)
    assert run.get("ask").output["decision"] == decision
    assert run.state_of("yes" if decision == "approve" else "no") == "queued"


def test_rule_38_a_timeout_may_fail_or_escalate():
    run = start(human("ask"))
    run.ask("ask", timeout_seconds=10, on_timeout="fail")
    run.pass_time(10)
    assert run.state.error.code == "approval_timeout"
    run = start(human("ask"), node("z", "ask"))
    approval = run.ask("ask", timeout_seconds=10, on_timeout="escalate", approvers=("ann",), escalate_to=("boss",))
    run.pass_time(10)
    assert run.state.approvals[approval].approvers == ("boss",)
    run.vote(approval, "approve", by="ann")
    assert run.refused.code == "not_an_approver"
    run.vote(approval, "approve", by="boss")
    assert run.state_of("z") == "queued"


def test_rule_38_an_escalated_approval_nobody_decides_is_rejected():
    run = start(human("ask", rejection_path=["no"]), node("no"))
    run.ask("ask", timeout_seconds=10, on_timeout="escalate", escalate_to=("boss",))
    run.pass_time(20)
    assert run.get("ask").output["decision"] == "reject"
