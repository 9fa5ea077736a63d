"""Activations and scopes: rules 1 to 3."""

import msgspec

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.address import Address
from perdure.kernel.values import Wait
from tests.attack.marks import attack
from tests.kernel.driver import fold
from tests.kernel.rules.graphs import AGAIN, DONE, UNDO, again, effects, human, items, node, pick, start, undone


def test_rule_01_outside_any_loop_the_scope_is_empty():
    run = start(node("a"), node("b", "a"))
    run.complete("a")
    assert run.get("a").scope == ()
    assert run.get("b").scope == ()


def test_rule_01_the_scope_is_the_iteration_numbers_of_the_loops_around_it():
    run = start(
        node("outer"),
        node("inner", "outer"),
        node("turn", "inner", loop=again("inner")),
        node("end", "turn", loop=again("outer")),
    )
    run.complete("outer", scope=(1,))
    run.complete("inner", scope=(1, 1))
    run.complete("turn", AGAIN, (1, 1))
    run.complete("inner", scope=(1, 2))
    run.complete("turn", DONE, (1, 2))
    run.complete("end", AGAIN, (1,))
    assert run.state_of("outer", (2,)) == "queued"
    run.complete("outer", scope=(2,))
    assert run.state_of("inner", (2, 1)) == "queued"


def test_rule_01_visit_is_the_ordinal_of_the_activation():
    run = start(node("a"), node("x", "a", loop=again("a")))
    for iteration in (1, 2, 3):
        assert run.get("a", (iteration,)).visit == iteration
        run.complete("a", scope=(iteration,))
        run.complete("x", {"again": iteration < 3}, (iteration,))
    assert run.status == "completed"


def test_rule_01_visit_counts_skipped_activations_too():
    run = start(node("h", branch=pick(["a"], ["b"])), node("a"), node("b"), node("x", "a", "b", loop=again("h")))
    run.complete("h", {"rule": 0}, (1,))
    assert run.state_of("b", (1,)) == "skipped"
    run.complete("a", scope=(1,))
    run.complete("x", AGAIN, (1,))
    run.complete("h", {"rule": 1}, (2,))
    assert run.get("b", (2,)).visit == 2


def test_rule_01_an_activation_that_is_decided_anew_stays_the_same_visit():
    run = start(
        node("h"), node("a", "h"), node("b", "h"), node("j", "a", "b", join="any"), node("x", "j", loop=again("h"))
    )
    run.complete("h", scope=(1,))
    run.fail("a", scope=(1,))
    run.fail("b", scope=(1,))
    assert run.state_of("j", (1,)) == "upstream_failed"
    run.tell(c.Retry)
    run.complete("a", scope=(1,))
    assert (run.get("a", (1,)).visit, run.get("j", (1,)).visit) == (1, 1)
    run.complete("j", scope=(1,))
    run.complete("x", AGAIN, (1,))
    assert run.get("h", (2,)).visit == 2


def test_rule_01_edges_and_joins_are_kept_per_activation():
    run = start(node("h"), node("a", "h"), node("b", "h"), node("x", "a", "b", loop=again("h")))
    run.complete("h", scope=(1,))
    run.complete("a", scope=(1,))
    run.complete("b", scope=(1,))
    run.complete("x", AGAIN, (1,))
    run.complete("h", scope=(2,))
    run.complete("a", scope=(2,))
    assert run.state_of("x", (2,)) == "pending"
    assert len(run.get("x", (1,)).edges) == 2
    assert len(run.get("x", (2,)).edges) == 1


def test_rule_01_attempts_and_their_budget_are_kept_per_activation():
    run = start(node("a"), node("x", "a", loop=again("a")))
    for _ in range(2):
        run.fail("a", scope=(1,), retryable=True)
        run.pass_time(60)
    assert run.get("a", (1,)).attempt == 3
    run.complete("a", scope=(1,))
    run.complete("x", AGAIN, (1,))
    assert (run.get("a", (2,)).attempt, run.get("a", (2,)).failures) == (1, 0)


def test_rule_01_waits_and_outputs_are_kept_per_activation():
    run = start(human("ask"), node("x", "ask", loop=again("ask")))
    first = run.ask("ask", (1,))
    run.vote(first, "approve", comments="one")
    run.complete("x", AGAIN, (1,))
    second = run.ask("ask", (2,))
    assert first != second
    assert run.state.approvals[second].votes == {}
    run.vote(second, "approve", comments="two")
    assert [run.get("ask", (n,)).output["comments"] for n in (1, 2)] == ["one", "two"]


def test_rule_02_attempt_grows_with_every_dispatch():
    run = start(node("a"))
    seen = [run.get("a").attempt]
    run.fail("a", retryable=True)
    run.pass_time(60)
    seen.append(run.get("a").attempt)
    run.begin("a")
    run.lapse("a")
    seen.append(run.get("a").attempt)
    run.lapse("a", reason="handed_back")
    seen.append(run.get("a").attempt)
    assert seen == [1, 2, 3, 4]


def test_rule_02_attempt_is_the_fence():
    run = start(node("a"))
    run.begin("a")
    run.lapse("a")
    run.begin("a")
    run.complete("a", "late", attempt=1)
    assert run.state_of("a") == "running"
    assert run.types()[-1] == "result.ignored"
    run.fail("a", attempt=1)
    assert run.state_of("a") == "running"
    run.complete("a", "good", attempt=2)
    assert run.get("a").output == "good"


def test_rule_02_a_late_success_is_heard_while_nobody_has_begun_the_next_attempt():
    run = start(node("a"))
    run.begin("a")
    run.lapse("a")
    run.complete("a", "late", attempt=1)
    assert run.get("a").output == "late"
    assert run.status == "completed"


@attack("S20", "a result of attempt 0 for a node that no worker has begun")
def test_rule_02_before_the_first_attempt_there_was_none_that_could_succeed():
    run = start(node("a"))
    run.complete("a", "forged", attempt=0)
    assert run.state_of("a") == "queued"


def test_rule_02_three_failures_of_the_handler_are_the_default():
    run = start(node("a"))
    for _ in range(2):
        run.fail("a", retryable=True)
        assert run.state_of("a") == "retrying"
        run.pass_time(60)
    run.fail("a", retryable=True)
    assert run.status == "failed"
    assert run.get("a").error.attempts == 3


def test_rule_02_human_wait_and_workflow_are_tried_once():
    for kind, config in (("human", {}), ("wait", {"seconds": 1}), ("workflow", {"workflow": "inner"})):
        run = start({"id": "a", "type": kind, "config": config})
        run.fail("a", retryable=True)
        assert run.status == "failed", kind


def test_rule_02_max_attempts_is_what_the_node_says():
    run = start(node("a", retry={"max_attempts": 2}))
    run.fail("a", retryable=True)
    run.pass_time(60)
    run.fail("a", retryable=True)
    assert run.status == "failed"


def test_rule_02_five_crashes_park_the_node_by_default():
    run = start(node("a"))
    for crashes in range(1, 5):
        run.begin("a")
        run.lapse("a")
        assert run.get("a").crashes == crashes
        assert run.state_of("a") == "queued"
    run.begin("a")
    run.lapse("a")
    assert run.state_of("a") == "parked"
    assert run.get("a").error.code == "poison"


def test_rule_02_max_crashes_is_what_the_node_says():
    run = start(node("a", max_crashes=2))
    run.lapse("a")
    run.lapse("a")
    assert run.state_of("a") == "parked"


def test_rule_02_crashes_do_not_count_as_failures_nor_failures_as_crashes():
    run = start(node("a", max_crashes=2, retry={"max_attempts": 2}))
    run.lapse("a")
    run.fail("a", retryable=True)
    assert (run.get("a").failures, run.get("a").crashes) == (1, 1)
    assert run.state_of("a") == "retrying"


def test_rule_02_hand_backs_count_for_neither():
    run = start(node("a", max_crashes=1, retry={"max_attempts": 1}))
    for _ in range(10):
        run.begin("a")
        run.lapse("a", reason="handed_back")
    assert run.state_of("a") == "queued"
    assert (run.get("a").failures, run.get("a").crashes) == (0, 0)
    assert run.get("a").attempt == 11


def test_rule_02_re_sent_messages_count_for_neither():
    run = start(node("a"), node("b", "a"))
    run.fail("a", retryable=True, attempt=1)
    journal = len(run.journal)
    run.fail("a", retryable=True, attempt=1)
    run.lapse("a", attempt=1)
    assert (run.get("a").failures, run.get("a").crashes) == (1, 0)
    assert run.types()[journal:] in ([], ["result.ignored"])
    run.pass_time(60)
    run.complete("a", 1)
    run.complete("a", 2)
    assert run.get("a").output == 1
    assert run.get("a").attempt == 2


def key(run, name):
    return run.state.address(run.get(name)).idempotency_key(run.get(name).undone)


def test_rule_03_the_key_is_made_of_run_node_scope_item_and_direction():
    keys = {
        Address("r", "a").idempotency_key(),
        Address("s", "a").idempotency_key(),
        Address("r", "b").idempotency_key(),
        Address("r", "a", (1,)).idempotency_key(),
        Address("r", "a", (1, 1)).idempotency_key(),
        Address("r", "a", (11,)).idempotency_key(),
        Address("r", "a", (), 0).idempotency_key(),
        Address("r", "a", (), 1).idempotency_key(),
        Address("r", "a", undo=True).idempotency_key(),
    }
    assert len(keys) == 9


def test_rule_03_the_key_never_contains_the_attempt():
    run = start(node("a", compensator=UNDO), node("b", "a"))
    before = key(run, "a")
    run.fail("a", retryable=True)
    run.pass_time(60)
    assert run.get("a").attempt == 2
    assert key(run, "a") == before


def test_rule_03_a_compensated_activation_that_runs_again_gets_a_new_key():
    run = start(node("a", compensator=UNDO), node("b", "a"), on_failure={"compensate": True})
    run.complete("a")
    first = key(run, "a")
    run.fail("b")
    undone(run, "a")
    run.tell(c.Retry)
    assert run.state_of("a") == "queued"
    assert key(run, "a") != first


def test_rule_03_every_map_item_has_its_own_key():
    run = start(
        {"id": "m", "type": "map", "config": {"over": "{{ inputs.list }}", "node": {"type": "task", "config": {}}}}
    )
    items(run, "m", 2)
    keys = {effect.address.idempotency_key() for effect in effects(run, fx.Dispatch)}
    assert len(keys) == 2
    assert Address("run", "m").idempotency_key() not in keys
    assert run.get("m").wait == Wait(kind="items", count=2)


# -- checkpoints ---------------------------------------------------------------------------------------------------------


def keep(run, data, number=0, step="", **fields):
    return run.checkpoint("a", data=data, number=number, step=step, **fields)


def test_a_checkpoint_is_kept_once_however_often_it_is_delivered():
    run = start(node("a"))
    for _ in range(3):
        keep(run, {"page": 1}, 1)
    assert [(event.number, event.data) for event in run.events("node.checkpointed")] == [(1, {"page": 1})]


def test_a_checkpoint_that_is_delivered_late_does_not_take_the_place_of_a_later_one():
    run = start(node("a"))
    for number in (1, 2, 1):
        keep(run, {"page": number}, number)
    assert run.get("a").checkpoint == {"data": {"page": 2}, "steps": {}}


def test_a_step_that_is_delivered_again_is_not_done_again():
    run = start(node("a"))
    for number, name in ((1, "x"), (2, "y"), (1, "x")):
        keep(run, f"{name}{number}", number, name)
    assert run.get("a").checkpoint == {"data": None, "steps": {"x": "x1", "y": "y2"}}
    assert len(run.events("node.checkpointed")) == 2


def test_rule_2_a_step_has_one_result():
    run = start(node("a"))
    keep(run, "first", 1, "x")
    keep(run, "second", 2, "x")
    run.lapse("a")
    keep(run, "third", 1, "x")
    keep(run, "uncounted", 0, "x")
    assert run.get("a").checkpoint == {"data": None, "steps": {"x": "first"}}
    assert len(run.events("node.checkpointed")) == 1


def test_rule_2_a_step_is_done_anew_after_it_was_compensated():
    run = start(node("a", compensator=UNDO), node("b", "a"), on_failure={"compensate": True})
    keep(run, "first", 1, "x")
    run.complete("a")
    run.fail("b")
    undone(run, "a")
    run.tell(c.Retry)
    keep(run, "again", 1, "x")
    assert run.get("a").checkpoint == {"data": None, "steps": {"x": "again"}}


def test_a_plain_checkpoint_leaves_the_results_of_steps():
    run = start(node("a"))
    keep(run, "paid", 1, "charge")
    keep(run, {"page": 1}, 2)
    keep(run, {"data": 1, "steps": {"charge": "forged"}}, 3)
    assert run.get("a").checkpoint == {"data": {"data": 1, "steps": {"charge": "forged"}}, "steps": {"charge": "paid"}}


def test_the_checkpoints_of_the_next_attempt_are_counted_anew():
    run = start(node("a"))
    keep(run, 1, 1)
    run.lapse("a")
    keep(run, 2, 1)
    assert (run.get("a").checkpoint["data"], len(run.events("node.checkpointed"))) == (2, 2)
    keep(run, 3, 2, attempt=1)
    assert run.get("a").checkpoint["data"] == 2, "a stale attempt keeps nothing"


def test_a_worker_that_does_not_count_keeps_each_of_its_checkpoints():
    run = start(node("a"))
    keep(run, 1)
    keep(run, 2)
    assert [event.number for event in run.events("node.checkpointed")] == [1, 2]


def test_a_checkpoint_of_before_they_were_numbered_takes_the_place_of_all():
    run = start(node("a"))
    keep(run, "paid", 1, "charge")
    keep(run, {"data": 7, "steps": {}}, 2)
    old = [msgspec.structs.replace(one, number=0) if one.type == "node.checkpointed" else one for one in run.journal]
    folded = fold(old, run.state.library).find("a")
    assert folded is not None
    assert folded.checkpoint == {"data": 7, "steps": {}}
