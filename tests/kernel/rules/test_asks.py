"""Asks, and steps that may happen at most once: rules 77 to 81."""

import msgspec
import pytest

from perdure.invariants.checker import Checker
from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.outstanding import outstanding
from perdure.kernel.values import Ask, Error, Wait
from tests.kernel.driver import Run, compiled
from tests.kernel.rules import graphs
from tests.kernel.rules.graphs import (
    AGAIN,
    DONE,
    UNDO,
    again,
    effects,
    end_child,
    items,
    node,
    start,
    undone,
    violations,
)
from tests.kernel.rules.test_patches import patch

OK = Ask(name="ok", kind="approval", approvers=("ann", "bob"), shown={"sum": 7})
NAP = Ask(name="nap", kind="sleep", seconds=60)
PAID = Ask(name="paid", kind="signal", signal="payment")
SUB = Ask(name="sub", kind="child", workflow="inner", inputs={"n": 1})


def ask(run, *asks, node="a", scope=(), item=None, **fields):
    return run._command(c.AskFor, node, scope, item, asks=asks, **fields)


def steps(run, name="a", scope=(), item=None):
    return (run.get(name, scope, item).checkpoint or {"steps": {}})["steps"]


@pytest.fixture(autouse=True)
def _checked(monkeypatch):
    """Have the checker look at every journal of this file, however its test ends."""
    runs = []

    class Checked(Run):
        def __init__(self, *given, **keys):
            runs.append(self)
            super().__init__(*given, **keys)

    monkeypatch.setattr(graphs, "Run", Checked)
    yield
    for run in runs:
        assert violations(run) == []


# -- 77 ----------------------------------------------------------------------------------------------------------------


def test_rule_77_everything_is_asked_for_at_once_and_no_slot_is_held():
    run = start(node("a"), node("b", "a"))
    run.begin("a")
    ask(run, OK, NAP, PAID, SUB)
    assert run.state_of("a") == "waiting"
    assert run.get("a").wait == Wait(kind="asks", count=4)
    waiting = run.events("node.waiting")[0]
    assert (waiting.version, [one.name for one in waiting.asks]) == (2, ["ok", "nap", "paid", "sub"])
    asked = run.events("approval.requested")[0]
    assert (asked.version, asked.ask, asked.approvers, asked.shown) == (2, "ok", ("ann", "bob"), {"sum": 7})
    child = run.events("child.started")[0]
    assert (child.version, child.ask, child.inputs) == (2, "sub", {"n": 1})
    assert [effect.child for effect in effects(run, fx.StartChild)] == [child.child]
    assert run.counter == 1


def test_rule_77_plain_events_are_written_as_before():
    run = start(node("a"), {"id": "h", "type": "human", "config": {}})
    run.checkpoint("a", data=1, step="x", number=1)
    run.ask("h")
    assert {event.version for event in run.journal} == {1}


def test_rule_77_an_ask_that_is_delivered_again_changes_nothing():
    run = start(node("a"))
    ask(run, NAP)
    before = len(run.journal)
    ask(run, NAP)
    ask(run, PAID, attempt=1)
    run.pass_time(60)
    after = len(run.journal)
    ask(run, NAP, attempt=1)
    assert (len(run.journal) - after, before) == (0, after - 4)


@pytest.mark.parametrize("paused", [False, True])
def test_rule_77_no_result_of_the_attempt_that_asked_is_accepted(paused):
    run = start(node("a"), node("b", "a"))
    ask(run, NAP)
    run.complete("a", "twin", attempt=1)
    if paused:
        run.tell(c.Pause)
    run.pass_time(60)
    assert run.state_of("a") == ("held" if paused else "queued")
    run.complete("a", "twin", attempt=1)
    run.fail("a", attempt=1)
    assert run.state_of("b") == "pending"
    assert isinstance(run.begin("a", attempt=1), c.Refused)
    if paused:
        run.tell(c.Resume)
    run.complete("a", "asked", attempt=2)
    assert run.get("a").output == "asked"


def test_rule_77_the_attempt_before_the_one_that_asked_is_over_too():
    run = start(node("a"))
    run.lapse("a")
    ask(run, NAP, attempt=2)
    run.complete("a", "late", attempt=1)
    run.pass_time(60)
    run.complete("a", "late", attempt=1)
    run.complete("a", "late", attempt=2)
    assert run.state_of("a") == "queued"


def test_rule_77_asking_counts_neither_as_failure_nor_as_crash_nor_as_try():
    run = start(node("a", retry={"max_attempts": 1}, max_crashes=1))
    for number in range(5):
        ask(run, Ask(name=f"nap{number}", kind="sleep", seconds=1))
        run.pass_time(1)
    assert (run.get("a").tries, run.get("a").attempt) == (1, 6)
    run.complete("a")
    assert run.status == "completed"


@pytest.mark.parametrize(
    "asks",
    [
        (),
        (NAP, NAP),
        tuple(Ask(name=f"n{n}", kind="sleep", seconds=1) for n in range(65)),
        (Ask(name="sub", kind="child"),),
        (Ask(name="nap", kind="sleep"),),
        (Ask(name="paid", kind="signal"),),
    ],
    ids=["none", "twice", "many", "no workflow", "no time", "no signal"],
)
def test_rule_77_what_cannot_be_asked_for_is_bad_ask(asks):
    run = start(node("a", retry={"max_attempts": 3}))
    ask(run, *asks)
    assert run.state.error.code == "bad_ask"


def test_rule_77_a_name_is_a_step_or_an_ask():
    run = start(node("a"))
    run.checkpoint("a", data=1, step="nap", number=1)
    ask(run, NAP)
    assert run.state.error.code == "bad_ask"
    run = start(node("a"))
    ask(run, NAP, Ask(name="never", kind="signal", signal="x", seconds=100))
    run.pass_time(100)
    run.checkpoint("a", data="forged", step="nap", number=1)
    assert steps(run)["nap"] == {}
    assert run.state_of("a") == "queued"


def test_rule_77_a_worker_cannot_write_the_step_of_an_ask():
    run = start(node("a"), node("f"))
    ask(run, OK)
    run.fail("f")
    run.tell(c.Retry)
    run.checkpoint("a", data={"decision": "approve"}, step="ok", number=1)
    assert run.state.error.code == "bad_step"
    assert steps(run) == {}


def test_rule_77_at_most_once_cannot_ask():
    run = start(node("a", effect="at_most_once"))
    run.begin("a")
    ask(run, NAP)
    assert run.state_of("a") == "parked"
    assert run.get("a").error.code == "cannot_suspend"


def test_rule_77_a_compensator_cannot_ask():
    run = start(node("a", compensator=UNDO), node("b", "a"), on_failure={"compensate": True})
    run.complete("a")
    run.fail("b")
    ask(run, NAP, undo=True)
    assert run.get("a").undo.state == "parked"
    assert run.get("a").undo.error.code == "cannot_suspend"


def test_rule_77_a_run_that_ends_asks_nobody():
    run = start(node("a"), node("f"))
    run.begin("a")
    run.fail("f")
    ask(run, OK)
    assert (run.status, run.events("approval.requested")) == ("failed", [])
    run.tell(c.Retry)
    ask(run, OK)
    assert run.state_of("a") == "waiting"


# -- 78 ----------------------------------------------------------------------------------------------------------------


def test_rule_78_the_last_answer_sends_the_handler_again_with_all_of_them():
    run = start(node("a"), node("b", "a"))
    run.checkpoint("a", data=3, step="before", number=1)
    ask(run, OK, NAP, PAID, SUB)
    approval, child = run.get("a").asks["ok"].approval, run.get("a").asks["sub"].child
    run.vote(approval, "approve", "ann", comments="fine", data={"limit": 5})
    run.tell(c.Signal, name="payment", payload={"sum": 7})
    end_child(run, child, "completed", output={"n": 2}, size=7)
    assert run.state_of("a") == "waiting"
    run.pass_time(60)
    assert run.dispatched() == {"a"}
    assert run.get("a").attempt == 2
    assert steps(run) == {
        "before": 3,
        "ok": {"decision": "approve", "decided_by": "ann", "comments": "fine", "data": {"limit": 5}},
        "paid": {"payload": {"sum": 7}, "timed_out": False},
        "sub": {"state": "completed", "output": {"n": 2}, "error": None},
        "nap": {},
    }
    assert {event.version for event in run.events("node.checkpointed")} == {1, 2}
    run.complete("a", 1)
    assert run.state_of("b") == "queued"


def test_rule_78_every_ask_has_one_answer():
    run = start(node("a"))
    ask(run, OK, SUB, PAID)
    approval, child = run.get("a").asks["ok"].approval, run.get("a").asks["sub"].child
    run.vote(approval, "approve", "ann")
    assert run.vote(approval, "reject", "bob").code == "already_decided"
    for state in ("completed", "failed", "completed"):
        end_child(run, child, state)
    for number in range(2):
        run.tell(c.Signal, name="payment", payload=number)
    assert len(run.events("node.checkpointed")) == 3
    assert steps(run)["paid"]["payload"] == 0
    assert [payload for _, _, payload in run.state.signals] == [1]


def test_rule_78_rejections_and_timeouts_are_answers():
    run = start(node("a"))
    slow = Ask(name="slow", kind="approval", seconds=10, on_timeout="fail")
    later = Ask(name="later", kind="approval", seconds=10, on_timeout="escalate", escalate_to=("eve",))
    never = Ask(name="never", kind="signal", signal="x", seconds=10)
    ask(run, OK, slow, later, never)
    run.vote(run.get("a").asks["ok"].approval, "reject", "ann")
    run.vote(run.get("a").asks["ok"].approval, "reject", "bob")
    run.pass_time(20)
    decisions = {name: step.get("decision") for name, step in steps(run).items()}
    assert decisions == {"ok": "reject", "slow": "timeout", "later": "reject", "never": None}
    assert steps(run)["never"] == {"payload": None, "timed_out": True}
    assert run.state_of("a") == "queued"
    assert run.get("a").rejected is False
    run.complete("a")
    assert run.status == "completed"


@pytest.mark.parametrize("state", ["failed", "cancelled", "rolled_back"])
def test_rule_78_a_child_that_does_not_complete_is_an_answer(state):
    run = start(node("a", retry={"max_attempts": 1}))
    ask(run, SUB)
    error = Error("broken", "it broke") if state == "failed" else None
    end_child(run, run.get("a").asks["sub"].child, state, error=error)
    said = {"code": "broken", "message": "it broke"} if error else None
    assert steps(run)["sub"] == {"state": state, "output": None, "error": said}
    assert run.state_of("a") == "queued"


def test_rule_78_signals_go_to_asks_and_nodes_in_order():
    run = start(node("a"), {"id": "w", "type": "wait", "config": {"signal": "payment"}}, node("b"))
    run.tell(c.Signal, name="payment", payload=0)
    ask(run, PAID, Ask(name="more", kind="signal", signal="payment"))
    assert steps(run) == {"paid": {"payload": 0, "timed_out": False}}
    run.suspend("w", Wait(kind="signal", name="payment"))
    ask(run, PAID, node="b")
    for number in (1, 2, 3, 4):
        run.tell(c.Signal, name="payment", payload=number)
    assert steps(run)["more"]["payload"] == 1
    assert run.get("w").output == 2
    assert steps(run, "b")["paid"]["payload"] == 3
    assert len(run.state.signals) == 1


def test_rule_78_a_large_answer_counts_against_the_limit():
    run = start(node("a"), limits={"max_bytes": 2**21})
    ask(run, SUB, NAP)
    end_child(run, run.get("a").asks["sub"].child, "completed", output="x", size=2**23)
    assert run.state.error.code == "limit_exceeded"


# -- 79 ----------------------------------------------------------------------------------------------------------------


def test_rule_79_ids_derive_from_the_place_and_collide_with_no_other():
    run = start(node("h"), node("a", "h"), node("x", "a", loop=again("h")))
    run.complete("h", scope=(1,))
    ask(run, OK, SUB, scope=(1,))
    asked = run.get("a", (1,)).asks
    assert (asked["ok"].approval, asked["sub"].child) == ("run:a~1~~ok:1", "run:a~1~~sub")
    run = start(
        {"id": "m", "type": "map", "config": {"over": "{{ inputs.list }}", "node": {"type": "task", "config": {}}}}
    )
    items(run, "m", 1)
    ask(run, OK, SUB, node="m", item=0)
    asked = run.get("m", (), 0).asks
    assert (asked["ok"].approval, asked["sub"].child) == ("run:m~~0~ok:1", "run:m~~0~sub")


def test_rule_79_a_child_that_is_nested_too_deep_is_answered_and_does_not_start():
    run = start(node("a"))
    run.state.depth = 100
    run.replay_each_step = False
    run.restored = None
    ask(run, SUB)
    assert steps(run)["sub"]["error"]["code"] == "depth_exceeded"
    assert (run.state_of("a"), run.events("child.started")) == ("queued", [])


# -- 80 ----------------------------------------------------------------------------------------------------------------


def test_rule_80_a_pause_keeps_nobody_from_answering():
    run = start(node("a"))
    ask(run, NAP)
    run.tell(c.Pause)
    run.pass_time(60)
    assert (run.state_of("a"), steps(run)) == ("held", {"nap": {}})
    run.tell(c.Resume)
    assert run.dispatched() == {"a"}


def test_rule_80_the_deadline_counts_the_wait_and_the_total_timeout_does_not():
    run = start(node("a", total_timeout_seconds=30))
    run.pass_time(10)
    ask(run, NAP)
    run.pass_time(60)
    assert run.state_of("a") == "queued"
    run.pass_time(19)
    assert run.state_of("a") == "queued"
    run.pass_time(2)
    assert run.state.error.code == "total_timeout"
    run = start(node("a"), deadline_seconds=30)
    ask(run, OK, NAP)
    run.pass_time(31)
    assert (run.status, run.state.error.code) == ("failed", "deadline_exceeded")


def test_rule_80_what_ends_the_run_ends_the_asks():
    run = start(node("a"), node("f"))
    ask(run, OK, NAP, PAID, SUB)
    approval, child = run.get("a").asks["ok"].approval, run.get("a").asks["sub"].child
    run.fail("f")
    assert run.status == "failing"
    assert [effect.child for effect in effects(run, fx.StopChild)] == [child]
    assert outstanding(run.state) == [fx.StopChild(child=child)]
    end_child(run, child, "cancelled")
    assert run.status == "failed"
    assert steps(run) == {}
    assert run.state.approvals[approval].state == "decided"
    assert run.vote(approval, "approve").code == "already_decided"
    assert (run.state.timers, run.state.signal_waits) == ({}, {})


def test_rule_80_a_child_that_cannot_be_stopped_is_waited_for_and_then_left():
    run = start(node("a"), node("f"))
    ask(run, SUB)
    run.fail("f")
    run.pass_time(31)
    assert run.status == "failed"
    run.tell(c.Retry)
    assert [effect.child for effect in outstanding(run.state) if isinstance(effect, fx.StopChild)] == ["run:a~~~sub"]
    ask(run, SUB)
    assert run.get("a").asks["sub"].child == "run:a~~~sub~2"
    end_child(run, "run:a~~~sub", "cancelled")
    assert run.state_of("a") == "waiting"
    end_child(run, "run:a~~~sub~2", "completed", output=2)
    assert steps(run)["sub"]["output"] == 2


def test_rule_80_a_new_generation_asks_only_for_what_has_no_answer():
    run = start(node("a"), node("f"))
    ask(run, OK, NAP, SUB)
    run.vote(run.get("a").asks["ok"].approval, "approve", "ann")
    run.fail("f")
    end_child(run, "run:a~~~sub", "completed", output=5)
    run.tell(c.Retry)
    assert steps(run).keys() == {"ok", "sub"}
    assert run.state_of("a") == "queued"
    ask(run, NAP)
    assert len(run.events("approval.requested")) == 1
    run.pass_time(60)
    assert run.get("a").asks["nap"].times == 2
    run.complete("a")
    run.complete("f")
    assert run.status == "completed"


def test_rule_80_a_cancelled_run_stops_the_children_of_asks():
    run = start(node("a"))
    ask(run, OK, SUB)
    run.tell(c.Cancel)
    assert [effect.child for effect in effects(run, fx.StopChild)] == ["run:a~~~sub"]
    assert run.status == "cancelling"
    run.tell(c.EndChild, child="run:a~~~sub", generation=1, state="cancelled", begun=False)
    assert run.status == "cancelled"


def test_rule_80_a_race_and_a_loop_end_the_asks_of_what_they_cancel():
    run = start(node("a"), node("b"), node("z", "a", "b", join={"at_least": 1, "cancel_rest": True}))
    ask(run, OK, NAP, PAID, SUB)
    run.complete("b")
    assert run.state_of("a") == "cancelled"
    assert [effect.child for effect in effects(run, fx.StopChild)] == ["run:a~~~sub"]
    assert [effect.child for effect in outstanding(run.state) if isinstance(effect, fx.StopChild)] == ["run:a~~~sub"]
    assert (run.state.timers, run.state.signal_waits) == ({}, {})
    end_child(run, "run:a~~~sub", "cancelled")
    assert [effect for effect in outstanding(run.state) if isinstance(effect, fx.StopChild)] == []
    run = start(node("h"), node("a", "h"), node("x", "h", loop=again("h")), node("z", "x"))
    run.complete("h", scope=(1,))
    ask(run, NAP, scope=(1,))
    run.complete("x", AGAIN, (1,))
    assert (run.state_of("a", (1,)), run.state.timers) == ("cancelled", {})
    run.complete("h", scope=(2,))
    ask(run, NAP, scope=(2,))
    run.pass_time(60)
    run.complete("a", scope=(2,))
    run.complete("x", DONE, (2,))
    run.complete("z")
    assert run.status == "completed"


def test_rule_80_items_of_a_map_ask_each_for_itself():
    run = start(
        {"id": "m", "type": "map", "config": {"over": "{{ inputs.list }}", "node": {"type": "task", "config": {}}}}
    )
    items(run, "m", 3, limit=2)
    ask(run, NAP, node="m", item=0)
    ask(run, PAID, node="m", item=1)
    assert run.get("m").items_open == 2
    run.tell(c.Signal, name="payment", payload=1)
    run.complete("m", 1, item=1)
    assert run.state_of("m", (), 2) == "queued"
    run.complete("m", 2, item=2)
    run.pass_time(60)
    run.complete("m", 0, item=0)
    assert run.get("m").output == [0, 1, 2]


def test_rule_80_children_of_asks_are_undone_before_their_asker():
    run = start(node("a", compensator=UNDO), node("b"), node("f", "a", "b"), on_failure={"compensate": True})
    ask(run, SUB, Ask(name="two", kind="child", workflow="inner"))
    end_child(run, "run:a~~~two", "completed")
    run.complete("b")
    end_child(run, "run:a~~~sub", "completed")
    run.complete("a")
    run.fail("f")
    assert run.status == "compensating"
    for child in ("run:a~~~sub", "run:a~~~two"):
        assert [(one.child, one.rollback) for one in effects(run, fx.StopChild)] == [(child, True)]
        assert outstanding(run.state) == [fx.StopChild(child=child, rollback=True)]
        end_child(run, child, "rolled_back", generation=2)
    undone(run, "a")
    assert (run.status, run.state_of("a")) == ("failed", "compensated")
    run.tell(c.Retry)
    assert steps(run) == {}
    ask(run, SUB)
    assert run.get("a").asks["sub"].child == "run:a~~~sub~2"


def test_rule_80_a_child_is_undone_whatever_became_of_its_asker():
    run = start(node("b", compensator=UNDO), node("a"), on_failure={"compensate": True})
    ask(run, SUB, Ask(name="late", kind="sleep", seconds=5))
    end_child(run, "run:a~~~sub", "completed")
    run.complete("b")
    run.pass_time(5)
    run.fail("a")
    assert run.status == "compensating"
    undone(run, "b")
    assert [(one.child, one.rollback) for one in effects(run, fx.StopChild)] == [("run:a~~~sub", True)]
    end_child(run, "run:a~~~sub", "rolled_back", generation=2)
    assert (run.status, run.state_of("a")) == ("failed", "failed")
    run.tell(c.Retry)
    assert steps(run) == {}
    assert run.state_of("a") == "queued"


def test_rule_80_a_child_that_cannot_be_undone_waits_for_a_person():
    run = start(node("a"), node("f", "a"), on_failure={"compensate": True})
    ask(run, SUB)
    end_child(run, "run:a~~~sub", "completed")
    run.complete("a")
    run.fail("f")
    end_child(run, "run:a~~~sub", "failed", generation=2, error=Error("no"))
    assert run.get("a").undo.state == "parked"
    run.requeue("a", undo=True)
    end_child(run, "run:a~~~sub", "rolled_back", generation=3)
    assert (run.status, run.state_of("a")) == ("failed", "compensated")


# -- 81 ----------------------------------------------------------------------------------------------------------------


def begin_step(run, step="pay", wish="w1", **fields):
    return run._command(c.BeginStep, "a", (), None, step=step, wish=wish, worker="w", **fields)


def test_rule_81_one_wish_begins_a_step():
    run = start(node("a"))
    for wish in ("w1", "w1", "w2"):
        begin_step(run, wish=wish)
    assert [(event.step, event.wish) for event in run.events("step.started")] == [("pay", "w1")]
    assert run.get("a").begun_steps == {"pay": "w1"}
    run.lapse("a")
    begin_step(run, wish="w3")
    begin_step(run, wish="w3", attempt=1)
    assert run.get("a").begun_steps == {"pay": "w1"}
    run.checkpoint("a", data="paid", step="pay", number=1)
    assert run.get("a").begun_steps is None
    begin_step(run, wish="w4")
    assert len(run.events("step.started")) == 1


def test_rule_81_a_step_without_a_result_parks_its_node():
    run = start(node("a", retry={"max_attempts": 5}))
    begin_step(run)
    run.fail("a", "step_ambiguous", retryable=True)
    assert run.state_of("a") == "parked"
    run.requeue("a")
    assert run.get("a").begun_steps is None
    begin_step(run, wish="w2")
    run.checkpoint("a", data="paid", step="pay", number=1)
    run.complete("a")
    assert run.status == "completed"


def doubtful(*steps, **fields):
    """A parked node whose steps have begun, and have no result."""
    run = start(node("a", retry={"max_attempts": 5}, **fields), node("b", "a"))
    for step in steps:
        begin_step(run, step=step)
    run.fail("a", "step_ambiguous", retryable=True)
    assert run.state_of("a") == "parked"
    return run


def test_rule_81_a_person_says_what_a_step_gave_and_the_others_begin_again():
    run = doubtful("pay", "mail")
    before = len(run.journal)
    run.requeue("a", steps={"pay": {"id": 7}}, by="ann")
    assert [event.type for event in run.journal[before:]][:2] == ["node.checkpointed", "node.requeued"]
    assert (steps(run), run.get("a").begun_steps) == ({"pay": {"id": 7}}, None)
    begin_step(run, step="pay", wish="w2")
    begin_step(run, step="mail", wish="w2")
    assert run.get("a").begun_steps == {"mail": "w2"}
    run.checkpoint("a", data="sent", step="mail", number=1)
    run.complete("a")
    run.complete("b")
    assert (run.status, violations(run)) == ("completed", [])


@pytest.mark.parametrize(
    ("given", "fields", "words"),
    [
        ({"other": 1}, {}, "no step 'other' that began and has no result; there are: 'pay'"),
        ({"pay": 1}, {"sensitive": ["$.card"]}, "seals what it keeps"),
        ({"pay": 1}, {"type": "agent", "config": {"model": "m", "prompt": "p"}}, "is an agent"),
    ],
)
def test_rule_81_nobody_makes_up_what_no_step_in_doubt_gave(given, fields, words):
    run = doubtful("pay", **fields)
    run.requeue("a", steps=given)
    assert words in run.refused.message
    assert run.state_of("a") == "parked"


def test_the_checker_sees_that_somebody_made_up_what_a_step_gave():
    run = doubtful("pay")
    run.requeue("a", steps={"pay": 1})
    said = [msgspec.structs.replace(one, step="x") if one.type == "node.checkpointed" else one for one in run.journal]
    checker = Checker(run.state.library)
    assert "V10" in {one.id for event in said for one in checker.feed(event)}


def test_rule_81_a_step_that_did_not_happen_begins_again():
    run = start(node("a", retry={"max_attempts": 5, "backoff_ms": 0}))
    begin_step(run)
    begin_step(run, wish="another", not_done=True)
    assert run.get("a").begun_steps == {"pay": "w1"}
    begin_step(run, not_done=True)
    begin_step(run, not_done=True)
    assert len(run.events("step.released")) == 1
    run.fail("a", "not_done", retryable=True, not_done=True)
    assert run.state_of("a") == "retrying"
    run.pass_time(1)
    begin_step(run, wish="w2")
    assert run.get("a").begun_steps == {"pay": "w2"}


def test_rule_81_a_run_that_ends_begins_no_step():
    run = start(node("a"), node("f"))
    run.begin("a")
    run.fail("f")
    begin_step(run)
    assert run.events("step.started") == []


def test_rule_81_what_is_compensated_begins_its_steps_anew():
    run = start(node("a", compensator=UNDO), node("b", "a"), on_failure={"compensate": True})
    begin_step(run)
    run.complete("a")
    run.fail("b")
    undone(run, "a")
    run.tell(c.Retry)
    begin_step(run, wish="w2")
    assert run.get("a").begun_steps == {"pay": "w2"}


# -- 28, for what handlers ask ------------------------------------------------------------------------------------------


LONE = Ask(name="ok", kind="approval", approvers=("ann",))


def gate(**keys):
    return node("a", config={"function": "shop:gate", "args": {"approvers": ["ann"]}}, **keys)


PARKED = {"on_failure": "park", "retry": {"max_attempts": 1}}


def refused_gate():
    """People said no, the handler failed for it, and its node is parked."""
    run = start(gate(**PARKED), node("pay", "a"))
    run.begin("a")
    ask(run, LONE)
    run.vote(run.events("approval.requested")[0].approval, "reject")
    run.begin("a")
    run.fail("a")
    assert run.state_of("a") == "parked"
    return run


def test_rule_28_a_node_that_asked_people_in_vain_is_not_discarded_as_continue():
    run = refused_gate()
    run.discard("a", "continue")
    assert run.refused.code == "approval_not_given"
    assert run.state_of("pay") == "pending"
    run.discard("a", "skip")
    assert run.state_of("pay") == "skipped"


def test_rule_28_nor_is_it_requeued_with_a_config_that_asks_others():
    run = refused_gate()
    run.requeue("a", config={"function": "shop:gate", "args": {"approvers": ["eve"]}})
    assert run.refused.code == "patch_refused"
    run.requeue("a")
    assert run.state_of("a") == "queued"


def test_rule_28_one_that_got_its_yes_is_repaired_as_any_other():
    run = start(gate(**PARKED), node("pay", "a"))
    run.begin("a")
    ask(run, LONE)
    run.vote(run.events("approval.requested")[0].approval, "approve")
    run.begin("a")
    run.fail("a")
    run.discard("a", "continue")
    assert run.state_of("pay") == "queued"


def test_rule_28_a_node_whose_run_is_asked_for_is_not_discarded_as_continue():
    run = start(gate(**PARKED), node("pay", "a"))
    run.begin("a")
    ask(run, SUB)
    end_child(run, run.events("child.started")[0].child, "failed")
    run.begin("a")
    run.fail("a")
    run.discard("a", "continue")
    assert run.refused.code == "approval_not_given"


@pytest.mark.parametrize("when", ["open", "refused"])
@pytest.mark.parametrize(
    "nodes",
    [
        (gate(**PARKED), node("pay")),
        (node("a", type="transform", config={"value": 1}, **PARKED), node("pay", "a")),
        (node("a", config={"function": "shop:gate", "args": {"approvers": ["eve"]}}, **PARKED), node("pay", "a")),
        (gate(on_failure="continue", retry={"max_attempts": 1}), node("pay", "a")),
        (gate(**PARKED), node("x"), node("pay", "a", "x", join="any")),
    ],
    ids=["free", "other type", "other people", "goes on anyway", "any"],
)
def test_rule_39_no_patch_leads_around_people_that_a_handler_asked(when, nodes):
    if when == "open":
        run = start(gate(**PARKED), node("pay", "a"))
        run.begin("a")
        ask(run, LONE)
    else:
        run = refused_gate()
    patch(run, *nodes)
    assert run.refused is not None
    assert run.refused.code == "patch_refused"
    patch(run, gate(**PARKED), node("pay", "a"), node("log"))
    assert run.state_of("log") == "queued"


def test_rule_39_nor_does_a_mended_definition_of_a_retry():
    run = start(gate(retry={"max_attempts": 1}), node("pay", "a"))
    run.begin("a")
    ask(run, LONE)
    run.vote(run.events("approval.requested")[0].approval, "reject")
    run.begin("a")
    run.fail("a")
    assert run.status == "failed"
    other = compiled(node("a", type="transform", config={"value": 1}), node("pay", "a"))
    run.tell(c.Retry, ir=other)
    assert run.refused is not None
