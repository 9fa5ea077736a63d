"""Failure, cancel, pause: rules 25 to 30. Deadlines, limits, effects and compensation: test_failure_limits.py."""

import pytest

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.address import Address
from perdure.kernel.causal_past import evidence, parents
from perdure.kernel.values import Wait
from perdure.model.ir import Reference
from tests.kernel.rules.graphs import AGAIN, DONE, UNDO, again, effects, human, node, noting, pick, start, undone


def test_rule_25_after_a_fatal_failure_nothing_is_dispatched():
    run = start(node("a"), node("b"), node("z", "b"), node("r"))
    run.fail("r", retryable=True)
    run.begin("b")
    run.fail("a")
    assert run.status == "failing"
    run.complete("b")
    run.pass_time(60)
    assert run.state_of("z") == "pending"
    assert run.get("r").attempt == 1


def test_rule_25_running_work_may_finish_and_its_outcome_is_kept_but_not_routed():
    run = start(node("a"), node("b", branch=pick(["z"])), node("z"))
    run.begin("b")
    run.fail("a")
    run.complete("b", {"rule": 0})
    assert run.get("b").output == {"rule": 0}
    assert run.events("node.completed")[0].route is None
    assert run.state_of("z") == "pending"


def test_rule_25_a_failure_of_running_work_is_kept_too():
    run = start(node("a"), node("b"))
    run.begin("b")
    run.fail("a")
    run.fail("b", retryable=True)
    assert run.events("node.failed")[-1].outcome == "kept"
    assert run.state.failed_node == "a"
    assert run.status == "failed"


def test_rule_25_the_run_is_failed_when_nothing_runs_any_more():
    run = start(node("a"), node("b"), node("d"))
    run.begin("b")
    run.fail("a")
    assert {recall.address.node for recall in effects(run, fx.Recall)} == {"d"}
    assert run.status == "failing"
    run.withdraw("d")
    assert run.status == "failing"
    run.complete("b")
    assert run.status == "failed"
    assert run.counter == 0


def test_rule_25_a_task_that_was_claimed_after_all_may_finish():
    run = start(node("a"), node("d"))
    run.fail("a")
    run.begin("d")
    assert run.status == "failing"
    run.complete("d", "done")
    assert run.status == "failed"
    assert run.get("d").output == "done"


def test_rule_25_compensation_comes_first_where_it_is_asked_for():
    run = start(node("a", compensator=UNDO), node("b", "a"), node("slow", "a"), on_failure={"compensate": True})
    run.complete("a")
    run.begin("slow")
    run.fail("b")
    assert run.status == "failing"
    run.complete("slow")
    assert run.status == "compensating"
    undone(run, "a")
    assert run.status == "failed"


def test_rule_25_the_next_generation_adopts_the_outcomes():
    run = start(node("a"), node("b"), node("z", "b"))
    run.begin("b")
    run.fail("a")
    run.complete("b", "kept")
    run.tell(c.Retry)
    assert run.dispatched() == {"a", "z"}
    assert run.get("b").attempt == 1
    assert parents(run.state, run.get("z"))["b"].output == "kept"


def failed_once(*graph, **keys):
    """A run of a → b whose b failed for good."""
    run = start(node("a"), node("b", "a"), *graph, **keys)
    run.complete("a")
    run.fail("b")
    return run


def test_rule_26_only_a_failed_run_can_be_retried():
    run = start(node("a"))
    run.tell(c.Retry)
    assert run.refused.code == "not_failed"
    run.complete("a")
    run.tell(c.Retry)
    assert run.refused.code == "not_failed"


def test_rule_26_retry_is_a_new_generation_with_a_fresh_attempt_budget():
    run = start(node("a"))
    for _ in range(3):
        run.fail("a", retryable=True)
        run.pass_time(60)
    assert run.status == "failed"
    run.tell(c.Retry)
    assert (run.state.generation, run.get("a").attempt, run.get("a").failures) == (2, 4, 0)
    run.fail("a", retryable=True)
    assert run.state_of("a") == "retrying"


def test_rule_26_results_of_the_old_generation_are_not_heard():
    run = failed_once()
    run.tell(c.Retry)
    run.complete("b", "old", generation=1, attempt=1)
    assert run.state_of("b") == "queued"


def test_rule_26_completed_nodes_keep_their_outcomes():
    run = failed_once()
    run.tell(c.Retry)
    assert run.dispatched() == {"b"}
    assert run.get("a").attempt == 1
    run.complete("b")
    assert run.status == "completed"


def test_rule_26_same_scopes_and_the_iteration_is_kept():
    run = start(node("h"), node("x", "h", loop=again("h")))
    run.complete("h", scope=(1,))
    run.complete("x", AGAIN, (1,))
    run.complete("h", scope=(2,))
    run.fail("x", scope=(2,))
    run.tell(c.Retry)
    assert run.dispatched() == {"x[2]"}
    run.complete("x", AGAIN, (2,))
    assert run.state_of("h", (3,)) == "queued"
    run.complete("h", scope=(3,))
    run.complete("x", DONE, (3,))
    assert run.status == "completed"


def test_rule_26_fired_joins_stay_fired():
    run = start(node("a"), node("b"), node("j", "a", "b", join="any"), node("z", "j"))
    run.complete("a")
    run.complete("j")
    run.fail("z")
    run.withdraw("b")
    run.tell(c.Retry)
    assert run.dispatched() == {"b", "z"}
    run.complete("b")
    run.complete("z")
    assert run.status == "completed"
    assert run.get("j").attempt == 1


def test_rule_26_parked_stays_parked():
    run = start(node("a"), node("p", on_failure="park"))
    run.fail("p", "broken")
    run.fail("a")
    assert run.status == "failed"
    run.tell(c.Retry)
    assert run.state_of("p") == "parked"
    run.requeue("p")
    assert run.state_of("p") == "queued"


def test_rule_26_what_was_cut_off_goes_on():
    run = start(node("a"), human("ask"), node("r"))
    first = run.ask("ask")
    run.fail("r", retryable=True)
    run.fail("a")
    assert run.status == "failed"
    run.vote(first, "approve")
    assert run.refused.code == "already_decided"
    run.tell(c.Retry)
    assert run.dispatched() == {"a", "ask", "r"}
    run.vote(run.ask("ask"), "approve")
    run.complete("a")
    run.complete("r")
    assert run.status == "completed"


def test_rule_26_the_deadline_restarts():
    run = start(node("a"), deadline_seconds=100)
    run.pass_time(90)
    run.fail("a")
    run.tell(c.Retry)
    assert run.state.deadline_at == run.now + 100
    run.pass_time(99)
    assert run.status == "running"
    run.pass_time(1)
    assert run.state.error.code == "deadline_exceeded"


def test_rule_26_compensated_activations_run_again():
    run = start(
        node("a", compensator=UNDO),
        node("m", "a"),
        node("b", "m", compensator=UNDO),
        node("z", "b"),
        on_failure={"compensate": True},
    )
    run.complete("a", 1)
    run.complete("m")
    run.complete("b")
    run.fail("z")
    undone(run, "b", "a")
    assert run.status == "failed"
    run.tell(c.Retry)
    assert run.dispatched() == {"a"}
    run.complete("a", 2)
    assert run.get("m").attempt == 1
    run.complete("b")
    run.complete("z")
    assert run.status == "completed"


def test_rule_26_what_builds_upon_something_undone_waits_until_that_is_done_again_and_sees_it():
    """Here by way of `m`, which cannot be undone and keeps its outcome: `z` may read `a` all the same."""
    run = start(node("a", compensator=UNDO), node("m", "a"), node("z", "m"), on_failure={"compensate": True})
    run.complete("a", 1)
    run.complete("m")
    run.fail("z")
    undone(run, "a")
    run.tell(c.Retry)
    assert (run.state_of("a"), run.state_of("z"), run.get("z").reason) == ("queued", "held", "redo")
    run.complete("a", 2)
    assert run.state_of("z") == "queued"
    assert evidence(run.state, run.get("z"), [Reference("node", "a")]).nodes["a"].output == 2
    run.complete("z")
    assert run.status == "completed"


@pytest.mark.parametrize("early", [True, False])
def test_rule_26_what_is_parked_behind_something_undone_is_given_what_was_done_again(early):
    """E3: it was sent without the output of `a`, whether it was requeued before `a` had completed anew or after."""
    nodes = (node("a", compensator=UNDO), node("p", "a", on_failure="park"), node("f"))
    run = start(*nodes, on_failure={"compensate": True})
    run.complete("a", 1)
    run.fail("p")
    run.fail("f")
    undone(run, "a")
    run.tell(c.Retry)
    assert run.state_of("p") == "parked"
    if early:
        run.requeue("p")
        assert run.state_of("p") == "held"
        run.complete("a", 2)
    else:
        run.complete("a", 2)
        assert run.state_of("p") == "parked"
        run.requeue("p")
    assert run.state_of("p") == "queued"
    assert parents(run.state, run.get("p"))["a"].output == 2


def test_rule_26_a_condition_waits_too_for_what_is_done_again():
    """`z` was never reached: its `when` may ask about `a`, by way of `m`, which kept its outcome."""
    asked: list[c.Question] = []
    run = start(
        node("a", compensator=UNDO),
        node("m", "a"),
        node("b"),
        node("z", "m", "b", when="ctx.a.output.ok"),
        answers={"when": noting(asked, False)},
        on_failure={"compensate": True},
    )
    run.complete("a", 1)
    run.complete("m")
    run.fail("b")
    undone(run, "a")
    run.tell(c.Retry)
    run.complete("b")
    assert (run.state_of("z"), asked) == ("held", [])
    run.complete("a", 2)
    assert (run.state_of("z"), asked, run.status) == ("skipped", asked[:1], "completed")


def test_rule_26_what_has_come_too_far_fails_its_run_and_waits_for_nothing():
    run = start(
        node("a", compensator=UNDO),
        node("m", "a"),
        node("b"),
        node("z", "m", "b", limits={"max_hops": 1}),
        on_failure={"compensate": True},
    )
    run.complete("a", 1)
    run.complete("m")
    run.fail("b")
    undone(run, "a")
    run.tell(c.Retry)
    run.complete("b")
    assert run.state.error.code == "limit_exceeded"


def test_rule_26_what_waits_for_something_to_be_done_again_waits_when_its_run_is_resumed_too():
    run = start(node("a", compensator=UNDO), node("m", "a"), node("z", "m"), on_failure={"compensate": True})
    run.complete("a", 1)
    run.complete("m")
    run.fail("z")
    undone(run, "a")
    run.tell(c.Retry)
    run.tell(c.Pause)
    run.tell(c.Resume)
    assert run.state_of("z") == "held"
    run.tell(c.Pause)
    run.complete("a", 2)
    assert run.state_of("z") == "held"
    run.tell(c.Resume)
    assert run.state_of("z") == "queued"


def test_rule_26_retry_is_refused_while_compensating():
    run = start(node("a", compensator=UNDO), node("b", "a"), on_failure={"compensate": True})
    run.complete("a")
    run.fail("b")
    run.tell(c.Retry)
    assert run.refused.code == "compensating"


def test_rule_26_a_retried_join_that_failed_tries_its_racers_again():
    run = start(node("a"), node("b"), node("j", "a", "b", join="any"))
    run.fail("a")
    run.fail("b")
    run.tell(c.Retry)
    assert run.dispatched() == {"a", "b"}
    run.complete("b")
    run.complete("j")
    run.complete("a")
    assert run.status == "completed"


def test_rule_27_an_error_output_has_one_shape():
    run = start(node("a", on_failure="continue", retry={"max_attempts": 2}), node("b", "a"))
    run.fail("a", "http:503", retryable=True)
    run.pass_time(60)
    run.fail("a", "http:503", retryable=True)
    assert run.get("a").output == {"error": {"code": "http:503", "message": "it failed", "attempts": 2}}


@pytest.mark.parametrize("policy", ["continue", {"path": ["b"]}])
def test_rule_27_error_paths_see_it_and_the_run_does_not_fail(policy):
    run = start(node("a", on_failure=policy), node("b", "a"))
    run.fail("a", "broken")
    assert run.state_of("b") == "queued"
    assert parents(run.state, run.get("b"))["a"].output["error"]["code"] == "broken"
    run.complete("b")
    assert run.status == "completed"
    assert run.state.error is None


def test_rule_27_continue_routes_like_an_output():
    run = start(
        node("a", on_failure="continue", branch=pick(["b"], ["d"])),
        node("b"),
        node("d"),
        answers={"branch": lambda question: question.need.rule == 1 and "error" in question.evidence.output},
    )
    run.fail("a")
    assert run.states() == {"a": "failed", "b": "skipped", "d": "queued"}


def parked(**keys):
    run = start(node("a", on_failure="park", **keys), node("b", "a"))
    run.fail("a", "broken")
    return run


def test_rule_28_a_parked_node_waits_for_a_person():
    run = parked()
    assert run.state_of("a") == "parked"
    assert run.status == "running"
    assert run.counter == 1
    run.pass_time(10_000)
    assert run.state_of("a") == "parked"


def test_rule_28_requeue_tries_again_with_a_fresh_budget():
    run = parked(retry={"max_attempts": 1})
    run.requeue("a", by="ann")
    assert (run.state_of("a"), run.get("a").attempt, run.get("a").failures) == ("queued", 2, 0)
    run.complete("a")
    run.complete("b")
    assert run.status == "completed"


def test_rule_28_requeue_with_other_config_is_recorded():
    run = parked()
    run.requeue("a", config={"function": "m:g"}, by="ann")
    event = run.events("node.requeued")[0]
    assert (event.config, event.by) == ({"function": "m:g"}, "ann")
    assert run.get("a").config == {"function": "m:g"}


def test_rule_28_discard_is_a_skip_by_default():
    run = parked()
    run.tell(c.Discard, address=Address("run", "a"))
    assert run.states() == {"a": "skipped", "b": "skipped"}
    assert run.status == "completed"
    assert run.events("node.discarded")[0].as_ == "skip"


def test_rule_28_discard_as_fail_fails_the_run():
    run = parked()
    run.discard("a", "fail")
    assert run.status == "failed"
    assert run.state.error.code == "broken"


def test_rule_28_discard_as_fail_loses_a_race_like_any_failure():
    run = start(node("a", on_failure="park"), node("b"), node("j", "a", "b", join="any"))
    run.fail("a", "broken")
    run.discard("a", "fail")
    assert run.status == "running"
    run.complete("b")
    run.complete("j")
    assert run.status == "completed"


def test_rule_28_discard_as_continue_goes_on_with_the_error_output():
    run = parked()
    run.discard("a", "continue")
    assert run.state_of("b") == "queued"
    assert parents(run.state, run.get("b"))["a"].output["error"]["code"] == "broken"
    run.complete("b")
    assert run.status == "completed"


def test_rule_28_only_what_is_parked_can_be_requeued_or_discarded():
    run = start(node("a"))
    run.requeue("a")
    assert run.refused.code == "not_parked"
    run.discard("a")
    assert run.refused.code == "not_parked"


def test_rule_29_cancelling_lasts_until_running_work_ended():
    run = start(node("a"), node("b"), node("z", "a"))
    run.begin("a")
    run.tell(c.Cancel, by="ann")
    assert run.status == "cancelling"
    assert [stop.address.node for stop in effects(run, fx.Stop)] == ["a"]
    assert [recall.address.node for recall in effects(run, fx.Recall)] == ["b"]
    run.withdraw("b")
    run.complete("a", "kept")
    assert run.status == "cancelled"
    assert run.get("a").output == "kept"
    assert run.state_of("z") == "pending"
    assert run.counter == 0


def test_rule_29_the_grace_is_thirty_seconds():
    run = start(node("a"))
    run.begin("a")
    run.tell(c.Cancel)
    run.pass_time(29.9)
    assert run.status == "cancelling"
    run.pass_time(0.1)
    assert run.status == "cancelled"
    assert run.state_of("a") == "cancelled"


def test_rule_29_nothing_running_is_cancelled_at_once():
    run = start(human("ask"), node("p", on_failure="park"))
    run.ask("ask")
    run.fail("p")
    run.tell(c.Cancel)
    assert run.status == "cancelled"
    assert run.counter == 0


def test_rule_29_a_cancelled_run_compensates_where_that_is_asked_for():
    run = start(node("a", compensator=UNDO), node("b", "a"), on_failure={"compensate": True})
    run.complete("a")
    run.tell(c.Cancel)
    run.withdraw("b")
    assert run.status == "compensating"
    undone(run, "a")
    assert run.status == "cancelled"


def test_rule_29_cancel_is_refused_during_compensation():
    run = start(node("a", compensator=UNDO), node("b", "a"), on_failure={"compensate": True})
    run.complete("a")
    run.fail("b")
    run.tell(c.Cancel)
    assert run.refused.code == "compensating"
    assert run.status == "compensating"


def test_rule_29_force_ends_compensation_and_leaves_a_dead_letter_for_each_left():
    run = start(
        node("a", compensator=UNDO),
        node("b", "a", compensator=UNDO),
        node("d", "b", compensator=UNDO),
        node("z", "d"),
        on_failure={"compensate": True},
    )
    for name in "abd":
        run.complete(name)
    run.fail("z")
    undone(run, "d")
    run.tell(c.Cancel, force=True)
    assert run.status == "cancelled"
    event = run.events("run.cancelled")[0]
    assert event.forced
    assert {place.node for place in event.not_compensated} == {"a", "b"}
    assert run.counter == 0


def test_rule_29_a_run_that_has_ended_cannot_be_cancelled():
    run = start(node("a"))
    run.complete("a")
    run.tell(c.Cancel)
    assert run.refused.code == "run_ended"


def test_rule_30_pause_gates_dispatch_only():
    run = start(node("a"), node("b", "a", branch=pick(["d"])), node("d"))
    run.begin("a")
    run.tell(c.Pause)
    run.complete("a", 1)
    assert run.status == "paused"
    assert run.get("a").output == 1
    assert run.state_of("b") == "held"
    assert run.get("b").reason == "paused"
    assert not effects(run, fx.Dispatch)
    run.tell(c.Resume)
    assert run.dispatched() == {"b"}


def test_rule_30_unclaimed_tasks_are_withdrawn():
    run = start(node("a"), node("b"))
    run.begin("b")
    run.tell(c.Pause)
    assert [recall.address.node for recall in effects(run, fx.Recall)] == ["a"]
    run.withdraw("a")
    assert (run.state_of("a"), run.state_of("b")) == ("held", "running")
    run.tell(c.Resume)
    assert run.dispatched() == {"a"}


def test_rule_30_decisions_signals_and_timers_are_recorded_and_routed():
    run = start(human("ask"), node("s"), node("t"), node("r"), node("z", "ask", "s", "t"))
    approval = run.ask("ask")
    run.suspend("s", Wait(kind="signal", name="go"))
    run.suspend("t", Wait(kind="timer", until=run.now + 10))
    run.fail("r", retryable=True)
    run.tell(c.Pause)
    run.vote(approval, "approve")
    run.tell(c.Signal, name="go", payload=1)
    run.pass_time(60)
    assert run.states() == {"ask": "completed", "s": "completed", "t": "completed", "r": "held", "z": "held"}
    assert run.status == "paused"


def test_rule_30_deadlines_go_on_while_paused():
    run = start(node("a"), deadline_seconds=10)
    run.tell(c.Pause)
    run.withdraw("a")
    run.pass_time(10)
    assert run.status == "failed"
    assert run.state.error.code == "deadline_exceeded"


def test_rule_30_a_paused_run_may_complete():
    run = start(node("a"))
    run.begin("a")
    run.tell(c.Pause)
    run.complete("a")
    assert run.status == "completed"


def test_rule_30_a_failure_is_routed_while_paused():
    run = start(node("a"), node("b"))
    run.begin("a")
    run.tell(c.Pause)
    run.withdraw("b")
    run.fail("a")
    assert run.status == "failed"
