"""`explain(state, node)`: for each way a node can wait, a sentence that says for what, and what to do."""

import pytest

from perdure.kernel import commands as c
from perdure.kernel.address import Address
from perdure.kernel.readings.explain import explain
from perdure.kernel.readings.reasons import find_first, reason_of
from perdure.kernel.triggers.trigger_run import NODE
from perdure.kernel.values import Ask, Error, Wait
from tests.kernel.mailboxes import trigger
from tests.kernel.rules.graphs import (
    AGAIN,
    DONE,
    UNDO,
    again,
    child,
    end_child,
    human,
    items,
    node,
    pick,
    start,
    undone,
)

MAP = {"id": "m", "type": "map", "config": {"over": "{{ inputs.list }}", "node": {"type": "task", "config": {}}}}


def test_a_node_the_workflow_does_not_have():
    run = start(node("fetch"), node("send", "fetch"))
    assert explain(run.state, "fetsch") == "The workflow has no node fetsch; did you mean 'fetch'?"
    assert explain(run.state, "zz") == "The workflow has no node zz; known are fetch, send"


def test_pending_behind_one_node():
    run = start(node("a"), node("b", "a"), node("d", "b"))
    assert explain(run.state, "b") == "b has not run: its dependency has not ended, and waits for a (queued)."
    assert explain(run.state, "d") == "d has not run: its dependency has not ended, and waits for b (not reached yet)."


def test_pending_behind_a_join():
    run = start(node("a"), node("b"), node("j", "a", "b"))
    run.complete("a")
    assert explain(run.state, "j") == (
        "j has not run: it needs all of its dependencies, and waits for b (queued); a arrived."
    )


def test_pending_behind_an_at_least_join():
    run = start(node("a"), node("b"), node("d"), node("j", "a", "b", "d", join={"at_least": 2}))
    run.complete("a")
    run.begin("d")
    assert explain(run.state, "j") == (
        "j has not run: it needs 2 of 3, and waits for b (queued), d (running); a arrived."
    )


def test_pending_behind_many_names_a_few():
    run = start(*(node(f"n{i}") for i in range(9)), node("j", *(f"n{i}" for i in range(9))))
    assert "n4 (queued) and 4 more" in explain(run.state, "j")


def test_pending_behind_a_person():
    run = start(human("ask"), node("z", "ask"))
    run.ask("ask")
    assert "waits for ask (waiting for a person)" in explain(run.state, "z")


def test_pending_behind_a_loop():
    run = start(node("h"), node("x", "h", loop=again("h")), node("z", "x"))
    run.complete("h", scope=(1,))
    run.complete("x", AGAIN, (1,))
    assert (
        explain(run.state, "z")
        == "z has not run: its dependency has not ended, and waits for x (its loop has not ended)."
    )
    run.complete("h", scope=(2,))
    assert "waits for x (queued)" in explain(run.state, "z")


def test_pending_in_the_next_iteration():
    run = start(node("h"), node("m", "h"), node("x", "m", loop=again("h")))
    run.complete("h", scope=(1,))
    run.complete("m", scope=(1,))
    run.complete("x", AGAIN, (1,))
    assert explain(run.state, "x") == (
        "x[2] has not run: its dependency has not ended, and waits for m (not reached yet)."
    )


def test_held_because_the_run_is_paused():
    run = start(node("a"), node("b", "a"))
    run.begin("a")
    run.tell(c.Pause)
    run.complete("a")
    assert explain(run.state, "b") == "b is ready, but the run is paused; resume it."


def test_held_because_no_worker_can_take_it():
    run = start(node("a", queue="gpu"))
    run.tell(c.HoldBack, address=Address("run", "a"))
    assert explain(run.state, "a") == (
        "a is ready, but no worker on queue 'gpu' has what 'task' needs; start one that does. A worker of its own "
        "for that queue: `perdure worker --queues gpu`."
    )


def test_queued():
    run = start(node("a"))
    assert explain(run.state, "a") == "a is queued in 'default' (attempt 1); no worker is known to run it yet."
    run = start(node("a", queue="heavy"))
    assert explain(run.state, "a").endswith(
        "no worker is known to run it yet. A worker of its own for that queue: `perdure worker --queues heavy`."
    )


def test_running():
    run = start(node("a"))
    run.begin("a", worker="w1")
    assert explain(run.state, "a") == "a is running on worker w1 since 1970-01-01 00:16:40 UTC, attempt 1."


def test_retrying():
    run = start(node("a", retry={"jitter": False}))
    run.fail("a", "http:503", retryable=True)
    assert explain(run.state, "a") == (
        "a failed (http:503: it failed) and is tried again at 1970-01-01 00:16:41 UTC; 2 attempts left."
    )


def test_an_attempt_that_is_not_the_first_one_says_why():
    run = start(node("a", retry={"jitter": False}))
    run.fail("a", "http:503", retryable=True)
    run.pass_time(400)
    assert explain(run.state, "a") == (
        "a is queued in 'default' (attempt 2); no worker is known to run it yet. "
        "What went wrong before: http:503: it failed."
    )
    run.begin("a")
    assert explain(run.state, "a").endswith(", attempt 2. What went wrong before: http:503: it failed.")


def test_a_poll_that_fails_is_tried_for_ever():
    run = trigger()
    run.table()
    for _ in range(9):
        run.fail(NODE, "unreachable", retryable=True)
        run.pass_time(400)
    run.fail(NODE, "unreachable", retryable=True)
    assert run.get(NODE).failures > 1
    said = explain(run.state, NODE)
    assert said.startswith("receive failed (unreachable: it failed) and is tried again at 1970-")
    assert said.endswith(" UTC; a poll is tried again for ever.")


def test_waiting_for_an_approval():
    run = start(human("ask"))
    approval = run.ask("ask", approvers=("ann", "bob"), quorum=2, timeout_seconds=60, on_timeout="escalate")
    run.vote(approval, "approve", by="ann")
    assert explain(run.state, "ask") == (
        "ask waits for a person: 1 of 2 approvals by ann, bob until 1970-01-01 00:17:40 UTC, then escalate."
    )


def test_waiting_for_an_approval_that_an_import_left_out():
    run = start(human("ask"))
    approval = run.ask("ask")
    del run.state.approvals[approval]
    assert explain(run.state, "ask") == f"ask waits for the approval {approval!r}, which nobody was asked for."


def test_waiting_for_anyone():
    run = start(human("ask"))
    run.ask("ask")
    assert explain(run.state, "ask") == "ask waits for a person: 0 of 1 approvals by anyone."


def test_waiting_for_a_timer():
    run = start(node("a"))
    run.suspend("a", Wait(kind="timer", until=1_700_000_000.0))
    assert explain(run.state, "a") == "a waits until 2023-11-14 22:13:20 UTC."


@pytest.mark.parametrize(("until", "text"), [(None, ""), (86_400.0 * 59, " until 1970-03-01 00:00:00 UTC")])
def test_waiting_for_a_signal(until, text):
    run = start(node("a"))
    run.suspend("a", Wait(kind="signal", name="go", until=until))
    assert explain(run.state, "a") == f"a waits for the signal 'go'{text}."


def test_waiting_for_a_child():
    run = start({"id": "w", "type": "workflow", "config": {"workflow": "inner"}})
    inner = child(run, "w")
    assert explain(run.state, "w") == f"w waits for its child run {inner}."


def test_waiting_for_items():
    run = start(MAP)
    items(run, "m", 4, limit=2, tolerated=1)
    run.complete("m", item=0)
    run.fail("m", item=1)
    assert explain(run.state, "m") == "m waits for its items: 2 of 4 ended, 2 open."


def test_waiting_for_items_of_which_one_is_parked():
    once = {"type": "task", "config": {}, "effect": "at_most_once"}
    run = start({"id": "m", "type": "map", "config": {"over": "{{ inputs.list }}", "node": once}})
    items(run, "m", 1)
    run.begin("m", item=0)
    run.lapse("m", item=0)
    assert explain(run.state, "m") == "m waits for its items: 0 of 1 ended, 1 open (1 parked)."


def test_waiting_for_the_delay_of_a_loop():
    run = start(node("x", loop=again("x", delay_ms=5000)))
    run.complete("x", AGAIN, (1,))
    assert explain(run.state, "x") == ("x[2] waits until 1970-01-01 00:16:45 UTC: the loop pauses between iterations.")


def test_parked():
    run = start(node("a", on_failure="park"))
    run.fail("a", "broken")
    assert explain(run.state, "a") == "a is parked after broken: it failed; requeue or discard it to go on."


def test_skipped_by_a_branch():
    run = start(node("a", branch=pick(["b"], ["d"])), node("b"), node("d"))
    run.complete("a", {"rule": 1})
    assert explain(run.state, "b") == "b was skipped: no path led to it (a went another way or was skipped)."


def test_skipped_by_when():
    run = start(node("a"), node("b", "a", when="inputs.x"), node("e", when="inputs.x"), answers={"when": False})
    run.complete("a")
    assert explain(run.state, "b") == "b was skipped: its `when` condition is false."
    assert explain(run.state, "e") == "e was skipped: its `when` condition is false."


def test_skipped_by_when_after_an_error_output():
    run = start(node("a", on_failure="continue"), node("b", "a", when="inputs.x"), answers={"when": False})
    run.fail("a")
    assert explain(run.state, "b") == "b was skipped: its `when` condition is false."


def test_skipped_by_a_required_dependency():
    run = start(
        node("a", branch=pick(["b"], ["d"])), node("b"), node("d"), node("e", {"node": "b", "required": True}, "d")
    )
    run.complete("a", {"rule": 1})
    assert explain(run.state, "e") == "e was skipped: a dependency it requires was skipped."


def test_skipped_by_a_person():
    run = start(node("a", on_failure="park"), node("b", "a"))
    run.fail("a")
    run.discard("a")
    assert explain(run.state, "a") == "a was skipped: it was discarded."
    assert "no path led to it" in explain(run.state, "b")


def test_cancelled_by_a_loop():
    run = start(node("h"), node("slow", "h"), node("x", "h", loop=again("h")), node("z", "x"))
    run.complete("h", scope=(1,))
    run.complete("x", DONE, (1,))
    assert explain(run.state, "slow") == "slow[1] was cancelled: its iteration of the loop was closed."


def test_cancelled_before_it_was_reached_by_a_loop():
    run = start(
        node("h"), node("slow", "h"), node("slower", "slow", "h"), node("x", "h", loop=again("h")), node("z", "x")
    )
    run.complete("h", scope=(1,))
    run.complete("x", DONE, (1,))
    assert explain(run.state, "slower") == "slower[1] was cancelled: its iteration of the loop was closed."


def test_never_reached_in_a_loop_that_is_over():
    run = start(node("h"), node("slow", "h"), node("slower", "slow"), node("x", "h", loop=again("h")), node("z", "x"))
    run.complete("h", scope=(1,))
    run.complete("x", DONE, (1,))
    assert explain(run.state, "slower") == "slower has not run: its loop ended before it was reached."


def test_cancelled_by_a_race():
    run = start(node("a"), node("b"), node("j", "a", "b", join={"at_least": 1, "cancel_rest": True}))
    run.complete("a")
    assert explain(run.state, "b") == "b was cancelled: the race it took part in was decided without it."


def test_cancelled_by_the_end_of_the_run():
    run = start(node("a"), node("b", "a"))
    run.begin("a")
    run.tell(c.Cancel, force=True)
    assert explain(run.state, "a") == "a was cancelled: the run ended (cancelled)."
    assert explain(run.state, "b") == "b has not run: the run was cancelled before it was reached."


def test_not_reached_while_the_run_is_cancelling():
    run = start(node("a"), node("b", "a"))
    run.begin("a")
    run.tell(c.Cancel)
    assert explain(run.state, "b") == "b has not run: the run is being cancelled."


def test_not_reached_while_the_run_compensates():
    run = start(node("a", compensator=UNDO), node("b", "a"), node("z", "b"), on_failure={"compensate": True})
    run.complete("a")
    run.fail("b", "broken")
    assert explain(run.state, "z") == "z has not run: the run failed before it was reached and is being compensated."
    undone(run, "a")
    assert explain(run.state, "a") == "a ran and was compensated."


def test_upstream_failed():
    run = start(node("a"), node("b"), node("j", "a", "b", join="any"))
    run.fail("a")
    run.fail("b")
    assert explain(run.state, "j") == "j cannot run: a, b failed."


def test_failed():
    run = start(node("a", retry={"max_attempts": 2}))
    run.fail("a", "broken", retryable=True)
    run.pass_time(60)
    run.fail("a", "broken", retryable=True)
    assert explain(run.state, "a") == "a failed after 2 attempts (broken: it failed)."


def test_not_reached_because_the_run_failed():
    run = start(node("a"), node("b", "a"))
    run.fail("a", "broken")
    assert explain(run.state, "b") == (
        "b has not run: the run ended before it was reached because a failed (broken); retry the run to go on."
    )


def test_not_reached_while_the_run_is_failing():
    run = start(node("a"), node("b", "a"), node("slow"))
    run.begin("slow")
    run.fail("a", "broken")
    assert explain(run.state, "b").startswith("b has not run: the run is ending before it was reached because a failed")


def test_held_while_the_run_is_failing():
    run = start(node("a"), node("q"), node("slow"))
    run.begin("slow")
    run.fail("a")
    run.withdraw("q")
    assert explain(run.state, "q") == "q is ready, but the run is failing."


def test_completed():
    run = start(node("a"), node("b", "a"))
    run.complete("a")
    assert explain(run.state, "a") == "a has run: it completed."


def test_completed_but_not_routed():
    run = start(node("a", branch=pick(["b"])), node("b"), node("bad"), node("slow"))
    run.begin("a")
    run.begin("slow")
    run.fail("bad")
    run.complete("a", {"rule": 0})
    assert explain(run.state, "a") == "a has run: it completed; where it goes from there is not decided yet."


def test_parked_because_its_routing_failed():
    run = start(node("a", branch=pick(["b"]), on_failure="park"), node("b"), answers={"branch": Error("x", "no rule")})
    run.complete("a", {})
    assert explain(run.state, "a") == "a is parked after routing_failed: no rule; requeue or discard it to go on."


def test_being_compensated():
    run = start(
        node("a", compensator=UNDO), node("b", "a", compensator=UNDO), node("z", "b"), on_failure={"compensate": True}
    )
    run.complete("a")
    run.complete("b")
    run.fail("z")
    assert explain(run.state, "a") == "a has run: it completed, and will be compensated after what came later."
    assert explain(run.state, "b") == "b has run: it completed, and is being compensated."
    run.fail("b", undo=True)
    assert explain(run.state, "b") == (
        "b has run: it completed, and its compensation is parked; requeue or discard it to go on."
    )


def test_skipped_because_too_few_could_run():
    run = start(node("a", branch=pick(["b"], ["d"])), node("b"), node("d"), node("j", "b", "d", join={"at_least": 2}))
    run.complete("a", {"rule": 0})
    run.complete("b")
    assert explain(run.state, "j") == "j was skipped: fewer than 2 of its dependencies could run."


def test_a_failed_child_is_named():
    run = start({"id": "w", "type": "workflow", "config": {"workflow": "inner"}}, node("z", "w"))
    inner = child(run, "w")
    end_child(run, inner, "failed", error=Error("broken", "no luck"))
    assert explain(run.state, "w") == f"w failed (child_failed: {inner} failed: broken: no luck)."


def test_what_a_handler_asked_for_is_named():
    run = start(node("a"))
    asks = (
        Ask(name="ok", kind="approval", approvers=("ann", "bob"), seconds=60),
        Ask(name="paid", kind="signal", signal="payment", seconds=60),
        Ask(name="sub", kind="child", workflow="inner"),
        Ask(name="nap", kind="sleep", seconds=60),
    )
    run.do(c.AskFor(at=run.now, address=run.state.address(run.get("a")), asks=asks))
    until = "until 1970-01-01 00:17:40 UTC"
    assert explain(run.state, "a") == (
        f"a has asked, and waits for ok (a decision by ann, bob {until}), paid (the signal 'payment' {until}), "
        f"sub (the child run run:a~~~sub), nap ({until})."
    )
    reason = reason_of(run.state, "a")
    assert reason == {
        "code": "asks",
        "asks": [
            {"name": "ok", "kind": "approval", "approval_id": "run:a~~~ok:1", "until": 1060.0},
            {"name": "paid", "kind": "signal", "signal": "payment", "until": 1060.0},
            {"name": "sub", "kind": "child", "child": "run:a~~~sub"},
            {"name": "nap", "kind": "sleep", "until": 1060.0},
        ],
    }
    assert find_first(run.state) == {"node": "a", **reason}
