"""Failure, cancel, pause: rules 31 to 34 (deadlines, limits, timeouts, effects, compensation)."""

import pytest

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.segments import BlobRef
from tests.kernel.rules.graphs import (
    AGAIN,
    DONE,
    UNDO,
    again,
    child,
    effects,
    end_child,
    human,
    items,
    node,
    start,
    undone,
    violations,
)

MAP = {
    "id": "m",
    "type": "map",
    "config": {"over": "{{ inputs.list }}", "node": {"type": "task", "config": {}, "compensator": UNDO}},
}
COMPENSATE = {"compensate": True}


def test_rule_31_a_deadline_passed_while_running_stops_the_work_and_fails():
    run = start(node("a"), deadline_seconds=60)
    run.begin("a")
    run.pass_time(60)
    assert run.status == "failing"
    assert run.state.error.code == "deadline_exceeded"
    assert [stop.address.node for stop in effects(run, fx.Stop)] == ["a"]
    run.fail("a", "stopped", retryable=True)
    assert run.status == "failed"


def test_rule_31_work_that_does_not_stop_is_left_behind_after_the_grace():
    run = start(node("a"), deadline_seconds=60)
    run.begin("a")
    run.pass_time(60)
    run.pass_time(30)
    assert run.status == "failed"


def test_rule_31_a_deadline_passed_while_waiting_or_parked_fails():
    waiting = start(human("a"), deadline_seconds=60)
    waiting.ask("a")
    parked = start(node("a", on_failure="park"), deadline_seconds=60)
    parked.fail("a")
    for run in (waiting, parked):
        run.pass_time(59)
        assert run.status == "running"
        run.pass_time(1)
        assert run.status == "failed"
        assert run.state.error.code == "deadline_exceeded"
        assert "node.retrying" not in run.types()


def test_rule_31_a_deadline_passed_while_paused_fails():
    run = start(node("a"), deadline_seconds=60)
    run.tell(c.Pause)
    run.withdraw("a")
    run.pass_time(60)
    assert run.state.error.code == "deadline_exceeded"


def test_rule_31_the_deadline_may_come_from_the_definition():
    run = start(human("a"), limits={"deadline_seconds": 5})
    run.ask("a")
    run.pass_time(5)
    assert run.state.error.code == "deadline_exceeded"


def test_rule_31_max_hops_is_the_length_of_a_tokens_path():
    run = start(node("a"), node("b", "a"), node("d", "b"), limits={"max_hops": 1})
    run.complete("a")
    assert run.state_of("b") == "queued"
    run.complete("b")
    assert run.status == "failed"
    assert run.state.error.code == "limit_exceeded"
    assert run.events("limit.reached")[0].limit == "max_hops"


def test_rule_31_width_is_no_hop():
    run = start(node("a"), *(node(f"b{n}", "a") for n in range(5)), limits={"max_hops": 1})
    run.complete("a")
    assert run.status == "running"


def test_rule_31_every_iteration_is_a_hop():
    run = start(node("x", loop=again("x", max_iterations=9)), limits={"max_hops": 2})
    for iteration in (1, 2, 3):
        run.complete("x", AGAIN, (iteration,))
    assert run.state.error.code == "limit_exceeded"


def test_rule_31_max_fanout_is_the_edges_one_activation_activates():
    run = start(node("a"), *(node(f"b{n}", "a") for n in range(3)), limits={"max_fanout": 2})
    run.complete("a")
    assert run.state.error.code == "limit_exceeded"
    assert run.events("limit.reached")[0].limit == "max_fanout"
    assert run.state_of("a") == "completed"


def test_rule_31_a_node_has_a_max_fanout_of_its_own():
    wide = [node(f"b{n}", "a") for n in range(3)]
    run = start(node("a", limits={"max_fanout": 2}), *wide, limits={"max_fanout": 3})
    run.complete("a")
    assert (run.events("limit.reached")[0].maximum, run.state.error.code) == (2, "limit_exceeded")
    run = start(node("a", limits={"max_fanout": 9}), *wide, limits={"max_fanout": 2})
    run.complete("a")
    assert run.events("limit.reached")[0].maximum == 2


def test_rule_31_max_fanout_is_the_items_one_activation_activates():
    run = start(MAP, limits={"max_fanout": 2})
    items(run, "m", 3)
    assert run.state.error.code == "limit_exceeded"


def test_rule_31_max_bytes_is_the_sum_of_outputs():
    run = start(node("a"), node("b", "a"), node("d", "b"), limits={"max_bytes": 100})
    run.complete("a", size=60)
    assert run.status == "running"
    run.complete("b", size=60)
    assert run.state.error.code == "limit_exceeded"
    assert run.events("limit.reached")[0].value == 120


MIB = 1024 * 1024


def test_rule_31_steps_count_against_max_bytes_from_the_second_mebibyte_on():
    run = start(node("a", retry={"max_attempts": 3}), node("b"), limits={"max_bytes": 100})
    for number in (1, 2):
        run.checkpoint("a", data="x", step=f"step {number}", number=number, size=MIB // 2)
    run.complete("b", size=60)
    run.fail("a", retryable=True)
    run.pass_time(3600)
    run.checkpoint("a", data="x", step="step 3", number=1, size=40)
    assert run.status == "running"
    run.checkpoint("a", data="x", step="step 3", number=1, size=9)
    assert run.status == "running", "one that is delivered again is not counted"
    run.checkpoint("a", data="x", step="step 4", number=2, size=1)
    assert (run.status, run.state_of("a"), run.state.error.code) == ("failed", "failed", "limit_exceeded")
    assert (run.events("limit.reached")[0].limit, run.events("limit.reached")[0].value) == ("max_bytes", 101)
    kept = len(run.events("node.checkpointed"))
    run.checkpoint("a", data="x", step="step 5", number=3, size=1)
    assert len(run.events("node.checkpointed")) == kept


@pytest.mark.parametrize(("count", "size"), [(101, 200), (1, MIB + 101)], ids=["many", "large"])
def test_rule_31_many_checkpoints_count_against_max_bytes_and_large_ones(count, size):
    run = start(node("a"), limits={"max_bytes": 100})
    run.checkpoint("a", data="x", step="s", number=1, size=MIB if count > 1 else 0)
    for number in range(2, count + 1):
        assert run.status == "running"
        run.checkpoint("a", data="x", number=number, size=size)
    if count == 1:
        run.checkpoint("a", data="x", number=2, size=size)
    assert run.state.error.code == "limit_exceeded"


def test_rule_31_an_attempt_that_keeps_too_much_fails_in_a_run_that_is_ending_too():
    run = start(node("a"), node("b"), limits={"max_bytes": 100})
    run.fail("b")
    assert run.status == "failing"
    run.checkpoint("a", data="x", step="s", number=1, size=MIB + 101)
    assert (run.status, run.state_of("a"), run.state.error.code) == ("failed", "failed", "error")


def test_rule_31_the_steps_of_a_node_have_a_budget_in_which_blobs_are_references():
    run = start(node("a", on_failure="continue"))
    for number in range(1, 4):
        run.checkpoint(
            "a", data=BlobRef("cas://sha256:" + "0" * 64), step=f"blob {number}", number=number, size=9 * MIB
        )
    run.checkpoint("a", data="x", step="s", number=4, size=15 * MIB)
    assert run.status == "running"
    run.checkpoint("a", data="x", step="t", number=5, size=MIB)
    assert (run.status, run.state_of("a"), run.get("a").error.code) == ("completed", "failed", "limit_exceeded")


def test_rule_31_what_counts_nothing_fails_nothing():
    run = start(node("a"), node("b"), node("d", "b"), limits={"max_bytes": 100})
    run.complete("b", size=101)
    assert run.status == "failing"
    run.checkpoint("a", data="x", number=1, size=50)
    assert run.state_of("a") == "queued"


@pytest.mark.parametrize("policy", ["park", "continue"])
def test_rule_31_a_breached_limit_is_not_retried(policy):
    run = start(node("a"), node("b", "a", on_failure=policy), node("d", "b"), limits={"max_bytes": 10})
    run.complete("a", size=5)
    run.complete("b", size=50)
    assert run.status == "failed"
    assert "node.retrying" not in run.types()


def test_rule_32_timeouts_are_carried_by_the_node():
    run = start(
        node(
            "a",
            timeout_seconds=1,
            queue_timeout_seconds=2,
            total_timeout_seconds=3,
            heartbeat_timeout_seconds=4,
            isolation="process",
        )
    )
    a = run.state.node(0)
    seconds = (a.timeout_seconds, a.queue_timeout_seconds, a.total_timeout_seconds, a.heartbeat_timeout_seconds)
    assert seconds == (1, 2, 3, 4)
    assert a.isolation == "process"


def test_rule_32_a_timeout_is_a_failure_of_the_attempt():
    """`timeout_seconds` is kept by the worker; what the kernel hears is the failure of one attempt."""
    run = start(node("a", timeout_seconds=5))
    run.begin("a")
    run.fail("a", "timeout", retryable=True)
    assert run.state_of("a") == "retrying"


def test_rule_32_nobody_took_it_in_time():
    run = start(node("a", queue_timeout_seconds=10))
    run.pass_time(10)
    assert run.state.error.code == "queue_timeout"


def test_rule_32_the_queue_timeout_ends_with_the_start_and_begins_with_every_dispatch():
    run = start(node("a", queue_timeout_seconds=10, retry={"max_attempts": 2, "backoff_ms": 1000, "jitter": False}))
    run.pass_time(9)
    run.begin("a")
    run.pass_time(100)
    assert run.state_of("a") == "running"
    run.fail("a", retryable=True)
    run.pass_time(1)
    run.pass_time(9)
    assert run.state_of("a") == "queued"
    run.pass_time(1)
    assert run.state.error.code == "queue_timeout"


def test_rule_32_the_total_timeout_spans_all_attempts():
    run = start(node("a", total_timeout_seconds=100))
    run.begin("a")
    run.pass_time(60)
    run.fail("a", retryable=True)
    run.pass_time(10)
    run.begin("a")
    assert run.get("a").attempt == 2
    run.pass_time(30)
    assert run.state.error.code == "total_timeout"
    assert [stop.address.node for stop in effects(run, fx.Stop)] == ["a"]


def test_rule_32_a_timeout_in_the_queue_is_a_failure_the_node_may_handle():
    run = start(node("a", queue_timeout_seconds=10, on_failure={"path": ["b"]}), node("b"))
    run.pass_time(10)
    assert run.states() == {"a": "failed", "b": "queued"}


def once(**keys):
    return start(node("pay", effect="at_most_once", **keys), node("z", "pay"))


def test_rule_33_it_starts_only_after_its_start_is_in_the_journal():
    run = once()
    run.begin("pay", worker="w1")
    assert run.types()[-1] == "node.started"
    run.begin("pay", worker="w2")
    assert run.refused.code == "already_begun"
    run.begin("pay", attempt=2)
    assert run.refused.code == "stale_attempt"


def test_rule_33_a_withdrawn_attempt_may_not_start():
    run = once()
    run.tell(c.Pause)
    run.withdraw("pay")
    run.begin("pay")
    assert run.refused.code == "stale_attempt"


def test_rule_33_an_ambiguous_failure_parks():
    run = once()
    run.begin("pay")
    run.fail("pay", "timeout", retryable=True)
    assert run.state_of("pay") == "parked"
    assert "node.retrying" not in run.types()


def test_rule_33_a_final_failure_is_ambiguous_too():
    run = once()
    run.begin("pay")
    run.fail("pay", "broken", retryable=False)
    assert run.state_of("pay") == "parked"


def test_rule_33_a_lost_worker_parks():
    run = once()
    run.begin("pay")
    run.lapse("pay")
    assert run.state_of("pay") == "parked"
    assert run.get("pay").error.code == "worker_lost"


@pytest.mark.parametrize("reason", ["crashed", "handed_back"])
def test_rule_33_a_worker_lost_before_the_start_is_certain(reason):
    run = once()
    run.lapse("pay", reason=reason)
    assert (run.state_of("pay"), run.get("pay").attempt) == ("queued", 2)


def test_rule_33_a_worker_that_gave_up_its_wish_has_not_begun():
    """It was granted, and the worker heard nothing of that: the attempt is queued again, and not parked."""
    run = start(node("x", effect="at_most_once"))
    run.begin("x", worker="w1", ask="one")
    run.lapse("x", reason="handed_back", ask="one")
    assert (run.state_of("x"), run.get("x").attempt, run.dispatched()) == ("queued", 2, {"x"})
    run.lapse("x", reason="handed_back", ask="one", attempt=1)  # delivered twice
    run.begin("x", worker="w2", ask="two")
    run.lapse("x", reason="handed_back", ask="one")
    assert run.state_of("x") == "parked", "nobody knows what the worker does that was granted the second wish"
    assert violations(run) == []


@pytest.mark.parametrize("said", [{"ask": ""}, {"ask": "two"}, {"ask": "one", "reason": "crashed"}])
def test_rule_33_only_the_wish_that_was_granted_says_that_nothing_began(said):
    run = start(node("x", effect="at_most_once"))
    run.begin("x", worker="w1", ask="one")
    run.lapse("x", **{"reason": "handed_back", **said})
    assert (run.state_of("x"), run.get("x").error.code) == ("parked", "worker_lost")


def test_rule_33_what_was_granted_and_not_begun_is_held_in_a_run_that_ends():
    run = start(node("x", effect="at_most_once"), node("y"))
    run.begin("x", worker="w1", ask="one")
    run.fail("y")
    run.lapse("x", reason="handed_back", ask="one")
    assert run.status == "failed"
    assert "node.parked" not in run.types()
    run.tell(c.Retry)
    run.begin("x", worker="w1", ask="two")
    run.complete("x")
    assert violations(run) == []


def test_rule_17_an_iteration_does_not_wait_for_what_was_granted_and_not_begun():
    run = start(node("h"), node("x", "h", effect="at_most_once"), node("l", "h", loop=again("h")), node("z", "l"))
    run.complete("h", scope=(1,))
    run.begin("x", (1,), worker="w1", ask="one")
    run.complete("l", AGAIN, (1,))
    assert run.state_of("h", (2,)) == "pending"
    run.lapse("x", (1,), reason="handed_back", ask="one")
    assert (run.state_of("x", (1,)), run.state_of("h", (2,))) == ("cancelled", "queued")
    assert violations(run) == []


@pytest.mark.parametrize("said", [{"worker": "w1"}, {"ask": "one"}])
def test_rule_33_who_began_may_say_that_nothing_was_done(said):
    run = start(node("x", effect="at_most_once", retry={"max_attempts": 3}))
    run.begin("x", worker="w1", ask="one")
    run.fail("x", retryable=True, not_done=True, **said)
    assert run.state_of("x") == "retrying"


@pytest.mark.parametrize("said", [{"worker": "w2"}, {"worker": "w1", "ask": "two"}])
def test_rule_33_who_did_not_begin_knows_nothing_of_the_effect(said):
    """A copy of the task came to another worker, which failed before it could wish to begin."""
    run = start(node("x", effect="at_most_once", retry={"max_attempts": 3}))
    run.begin("x", worker="w1", ask="one")
    run.fail("x", retryable=True, not_done=True, **said)
    assert run.state_of("x") == "parked"


def test_rule_33_what_certainly_was_not_done_may_be_retried():
    run = once()
    run.begin("pay")
    run.fail("pay", "connection", retryable=True, not_done=True)
    assert run.state_of("pay") == "retrying"
    run.pass_time(60)
    run.begin("pay")
    run.complete("pay")
    assert run.state_of("z") == "queued"


def test_rule_33_what_certainly_was_not_done_may_fail_for_good():
    run = once()
    run.begin("pay")
    run.fail("pay", "connection", retryable=False, not_done=True)
    assert run.status == "failed"


def test_rule_33_a_total_timeout_while_it_runs_parks():
    run = once(total_timeout_seconds=10)
    run.begin("pay")
    run.pass_time(10)
    assert run.state_of("pay") == "parked"


def test_rule_33_a_person_decides_what_to_do_with_it():
    run = once()
    run.begin("pay")
    run.lapse("pay")
    run.requeue("pay", by="ann")
    run.begin("pay")
    run.complete("pay")
    assert run.state_of("z") == "queued"
    assert len(run.events("node.started")) == 2


def test_rule_34_completed_activations_are_compensated_in_reverse_order_of_completion():
    run = start(
        node("a", compensator=UNDO),
        node("b", compensator=UNDO),
        node("d", "a", "b"),
        node("f", "d", compensator=UNDO),
        node("z", "f"),
        on_failure=COMPENSATE,
    )
    run.complete("b")
    run.complete("a")
    run.complete("d")
    run.complete("f")
    run.fail("z")
    assert run.status == "compensating"
    assert [place.node for place in run.events("run.compensating")[0].plan] == ["f", "a", "b"]
    assert (run.dispatched(), effects(run, fx.Dispatch)[0].address.undo) == ({"f"}, True)
    undone(run, "f")
    assert run.dispatched() == {"a"}
    undone(run, "a", "b")
    assert run.status == "failed"
    assert run.states() == {"a": "compensated", "b": "compensated", "d": "completed", "f": "compensated", "z": "failed"}


def test_rule_34_what_did_not_complete_is_not_compensated():
    run = start(
        node("a", compensator=UNDO),
        node("b", "a", compensator=UNDO),
        node("d", "a", on_failure="continue", compensator=UNDO),
        on_failure=COMPENSATE,
    )
    run.complete("a")
    run.fail("d")
    run.fail("b")
    assert [place.node for place in run.events("run.compensating")[0].plan] == ["a"]


def test_rule_34_without_anything_to_undo_the_run_ends_at_once():
    run = start(node("a"), node("b", "a"), on_failure=COMPENSATE)
    run.complete("a")
    run.fail("b")
    assert run.status == "failed"


def test_rule_34_without_asking_nothing_is_compensated():
    run = start(node("a", compensator=UNDO), node("b", "a"))
    run.complete("a")
    run.fail("b")
    assert run.status == "failed"


def test_rule_34_it_begins_after_running_work_has_drained_and_covers_what_that_did():
    run = start(node("a", compensator=UNDO), node("slow", compensator=UNDO), node("b", "a"), on_failure=COMPENSATE)
    run.complete("a")
    run.begin("slow")
    run.fail("b")
    assert run.status == "failing"
    run.complete("slow")
    assert [place.node for place in run.events("run.compensating")[0].plan] == ["slow", "a"]


def test_rule_34_every_iteration_is_compensated():
    run = start(node("x", compensator=UNDO, loop=again("x")), node("z", "x"), on_failure=COMPENSATE)
    run.complete("x", AGAIN, (1,))
    run.complete("x", DONE, (2,))
    run.fail("z")
    assert [place.scope for place in run.events("run.compensating")[0].plan] == [(2,), (1,)]
    run.complete("x", scope=(2,), undo=True)
    run.complete("x", scope=(1,), undo=True)
    assert run.status == "failed"


def test_rule_34_every_map_item_is_compensated():
    run = start(MAP, node("z", "m"), on_failure=COMPENSATE)
    items(run, "m", 2)
    run.complete("m", item=1)
    run.complete("m", item=0)
    run.fail("z")
    assert [place.item for place in run.events("run.compensating")[0].plan] == [0, 1]
    run.complete("m", item=0, undo=True)
    run.complete("m", item=1, undo=True)
    assert run.status == "failed"


def test_rule_34_items_of_a_map_that_failed_are_compensated():
    run = start(MAP, on_failure=COMPENSATE)
    items(run, "m", 2)
    run.complete("m", item=1)
    run.fail("m", item=0)
    assert [place.item for place in run.events("run.compensating")[0].plan] == [1]
    run.complete("m", item=1, undo=True)
    assert run.status == "failed"


def test_rule_34_a_child_is_rolled_back():
    run = start({"id": "w", "type": "workflow", "config": {"workflow": "inner"}}, node("z", "w"), on_failure=COMPENSATE)
    inner = child(run, "w")
    end_child(run, inner, "completed", output=1)
    run.fail("z")
    assert [(stop.child, stop.rollback) for stop in effects(run, fx.StopChild)] == [(inner, True)]
    end_child(run, inner, "rolled_back", generation=2)
    assert run.state_of("w") == "compensated"
    assert run.status == "failed"


def test_rule_34_compensators_see_output_config_and_error():
    run = start(node("a", compensator=UNDO), node("b", "a"), on_failure=COMPENSATE)
    run.complete("a", {"order": 7})
    run.fail("b", "broken")
    a = run.get("a")
    assert a.output == {"order": 7}
    assert run.state.pinned(a).config == {"function": "m:f"}
    assert run.state.error.code == "broken"


def test_rule_34_a_compensator_is_retried_and_then_parks():
    undo = {**UNDO, "retry": {"max_attempts": 2, "jitter": False}}
    run = start(node("a", compensator=UNDO), node("b", "a", compensator=undo), node("z", "b"), on_failure=COMPENSATE)
    run.complete("a")
    run.complete("b")
    run.fail("z")
    run.fail("b", undo=True, retryable=True)
    assert run.get("b").undo.state == "retrying"
    run.pass_time(1)
    assert run.get("b").undo.attempt == 2
    run.fail("b", undo=True, retryable=True)
    assert run.get("b").undo.state == "parked"
    run.pass_time(1000)
    assert run.get("a").undo.state == "planned"
    run.requeue("b", undo=True)
    assert run.dispatched() == {"b"}
    undone(run, "b", "a")
    assert run.status == "failed"


def test_rule_34_a_parked_compensation_may_be_discarded():
    run = start(node("a", compensator=UNDO), node("b", "a", compensator=UNDO), node("z", "b"), on_failure=COMPENSATE)
    run.complete("a")
    run.complete("b")
    run.fail("z")
    run.fail("b", undo=True)
    run.discard("b", undo=True)
    assert run.dispatched() == {"a"}
    undone(run, "a")
    assert run.status == "failed"
    assert run.state_of("b") == "completed"


def test_rule_34_a_lost_worker_of_a_compensator_is_replaced():
    run = start(node("a", compensator=UNDO), node("b", "a"), on_failure=COMPENSATE)
    run.complete("a")
    run.fail("b")
    run.begin("a", undo=True)
    run.lapse("a", undo=True)
    assert run.get("a").undo.attempt == 2
    run.complete("a", undo=True, attempt=1)
    assert run.status == "compensating"
    undone(run, "a")
    assert run.status == "failed"


def test_rule_34_the_deadline_does_not_apply():
    run = start(node("a", compensator=UNDO), node("b", "a"), on_failure=COMPENSATE, deadline_seconds=60)
    run.complete("a")
    run.fail("b", "broken")
    run.pass_time(1000)
    assert run.status == "compensating"
    undone(run, "a")
    assert run.state.error.code == "broken"


def test_rule_34_it_ends_cancelled_after_a_cancel():
    run = start(node("a", compensator=UNDO), human("ask", "a"), on_failure=COMPENSATE)
    run.complete("a")
    run.ask("ask")
    run.tell(c.Cancel)
    undone(run, "a")
    assert run.status == "cancelled"


def test_rule_34_on_request_a_completed_run_is_rolled_back():
    run = start(node("a", compensator=UNDO), node("b", "a", compensator=UNDO))
    run.complete("a")
    run.complete("b")
    assert run.status == "completed"
    run.tell(c.Rollback)
    undone(run, "b", "a")
    assert run.status == "rolled_back"
    assert run.counter == 0


def test_rule_34_a_run_without_anything_to_undo_can_be_rolled_back():
    run = start(node("a"))
    run.complete("a")
    run.tell(c.Rollback)
    assert run.status == "rolled_back"


def test_rule_34_a_live_run_cannot_be_rolled_back():
    run = start(node("a"))
    run.tell(c.Rollback)
    assert run.refused.code == "not_ended"


def test_rule_31_max_bytes_is_a_gibibyte_without_a_word():
    run = start(node("a"))
    assert run.state.ir.limits.max_bytes == 1024**3
    run.complete("a", size=1024**3 + 1)
    assert run.events("limit.reached")[0].limit == "max_bytes"
