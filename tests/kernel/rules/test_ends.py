"""Pauses beside one another (rule 30), children of a run that ends (25, 29, 35), what a continuation carries (15)."""

from typing import Any

import pytest

from perdure.invariants import check
from perdure.kernel import commands as c
from perdure.kernel import continuations
from perdure.kernel import effects as fx
from perdure.kernel.decider import MAX_DEPTH
from perdure.kernel.outstanding import outstanding
from perdure.kernel.values import Error, Wait
from perdure.runtime.coordinator.continuations import continuation_notice, read_continuation
from tests.kernel.driver import Run, compiled
from tests.kernel.rules.graphs import AGAIN, UNDO, child, effects, end_child, items, node, start, undone, violations


def test_rule_30_pauses_for_different_reasons_do_not_swallow_one_another():
    run = start(node("a"), node("b", "a"))
    run.tell(c.Pause, reason="budget", by="meter")
    run.withdraw("a")
    run.tell(c.Pause, reason="audit", by="ann")
    assert [(event.reason, event.by) for event in run.events("run.paused")] == [("budget", "meter"), ("audit", "ann")]
    run.tell(c.Resume, reason="budget", by="meter")
    assert (run.status, run.state_of("a"), run.events("run.resumed")[0].left) == ("paused", "held", ("audit",))
    run.tell(c.Resume, reason="audit")
    assert (run.status, run.dispatched()) == ("running", {"a"})


def test_rule_30_the_end_of_a_pause_that_never_was_ends_no_other():
    run = start(node("a"))
    run.tell(c.Pause, reason="audit")
    run.tell(c.Resume, reason="budget")
    assert (run.status, len(run.events("run.resumed"))) == ("paused", 0)


def test_rule_30_a_person_who_names_no_reason_resumes_the_run():
    run = start(node("a"))
    run.tell(c.Pause)
    run.tell(c.Pause, reason="audit")
    run.tell(c.Pause, reason="audit")
    assert len(run.events("run.paused")) == 2
    run.tell(c.Resume)
    assert (run.status, run.state.pauses) == ("running", {})


def test_rule_30_a_new_generation_is_paused_for_nothing():
    run = start(node("a"), node("b"))
    run.begin("a")
    run.tell(c.Pause, reason="audit")
    run.fail("a")
    run.withdraw("b")
    run.tell(c.Retry)
    run.tell(c.Pause, reason="other")
    assert run.state.pauses == {"other": ""}


def test_rule_25_the_children_of_a_failing_run_are_stopped_and_waited_for():
    run = start(node("w", type="workflow", config={"workflow": "inner"}), node("bad"), node("z", "w"))
    name = child(run, "w")
    run.fail("bad")
    assert [effect.child for effect in effects(run, fx.StopChild)] == [name]
    assert (run.status, run.state_of("w")) == ("failing", "waiting")
    assert [one.child for one in outstanding(run.state) if isinstance(one, fx.StopChild)] == [name]
    end_child(run, name, "cancelled", orphaned=True)
    assert (run.status, run.state_of("w"), run.state.error.code) == ("failed", "failed", "error")


def test_rule_25_what_a_child_completes_while_its_parent_fails_is_kept():
    run = start(node("w", type="workflow", config={"workflow": "inner"}), node("bad"), node("z", "w"))
    name = child(run, "w")
    run.fail("bad")
    end_child(run, name, "completed", output={"n": 1})
    assert (run.status, run.state_of("w"), run.state_of("z")) == ("failed", "completed", "pending")
    run.tell(c.Retry)
    assert run.dispatched() == {"bad", "z"}


def test_rule_25_a_child_that_does_not_end_is_waited_for_so_long_and_no_longer():
    run = start(node("w", type="workflow", config={"workflow": "inner"}), node("bad"))
    child(run, "w")
    run.fail("bad")
    run.pass_time(29)
    assert run.status == "failing"
    run.pass_time(2)
    assert (run.status, run.state_of("w")) == ("failed", "cancelled")


def test_rule_25_children_end_before_anything_is_compensated():
    run = start(
        node("done", compensator=UNDO),
        node("w", type="workflow", config={"workflow": "inner"}),
        node("bad"),
        on_failure={"compensate": True},
    )
    run.complete("done")
    name = child(run, "w")
    run.fail("bad")
    assert run.status == "failing"
    end_child(run, name, "cancelled", orphaned=True)
    assert run.status == "compensating"
    undone(run, "done")
    assert run.status == "failed"


def test_rule_25_children_of_items_are_stopped_too():
    run = start(
        node("m", type="map", config={"over": "{{ inputs.x }}", "workflow": "inner"}, on_failure="fail"), node("bad")
    )
    items(run, "m", 2)
    for item in (0, 1):
        run.suspend("m", Wait(kind="child"), item=item, workflow="inner")
    run.fail("bad")
    stopped = [effect.child for effect in effects(run, fx.StopChild)]
    assert len(stopped) == 2
    for name in stopped:
        end_child(run, name, "cancelled", orphaned=True)
    assert run.status == "failed"
    run.tell(c.Retry)
    assert run.dispatched() == {"bad", "m"}
    items(run, "m", 2)
    assert run.dispatched() == {"m#0", "m#1"}


def test_rule_35_the_next_generation_retries_the_child_that_was_stopped_with_its_parent():
    run = start(node("w", type="workflow", config={"workflow": "inner"}), node("bad"), node("z", "w"))
    name = child(run, "w")
    run.fail("bad")
    end_child(run, name, "cancelled", orphaned=True)
    run.tell(c.Retry)
    assert run.dispatched() == {"bad", "w"}
    assert child(run, "w") == name
    assert [(one.child, one.generation) for one in effects(run, fx.StartChild)] == [(name, 2)]
    end_child(run, name, "completed", 2)
    assert run.state_of("z") == "queued"


def test_rule_35_a_child_that_ends_late_is_started_again_by_the_generation_that_wants_it():
    """The parent had waited long enough, failed and was retried before the child it had stopped was cancelled."""
    run = start(node("w", type="workflow", config={"workflow": "inner"}), node("bad"), node("z", "w"))
    name = child(run, "w")
    run.fail("bad")
    run.pass_time(31)
    run.tell(c.Retry)
    child(run, "w")
    end_child(run, name, "cancelled", 1, orphaned=True)
    assert [(one.child, one.generation) for one in effects(run, fx.StartChild)] == [(name, 2)]
    end_child(run, name, "completed", 2)
    assert (run.state_of("w"), run.state_of("z")) == ("completed", "queued")


def test_rule_35_a_child_that_is_rolled_back_while_its_parent_is_retried_is_waited_for_no_longer():
    """Seed 1196050: the parent waited for a generation that a child which is rolled back never has."""
    run = start({"id": "w", "type": "workflow", "config": {"workflow": "inner"}})
    name = child(run, "w")
    end_child(run, name, "cancelled")
    assert run.status == "failed"
    run.tell(c.Retry)
    child(run, "w")
    assert run.state_of("w") == "waiting"
    end_child(run, name, "cancelled")  # what is delivered again is no news
    assert run.state_of("w") == "waiting"
    end_child(run, name, "rolled_back")  # in its only generation: it was rolled back meanwhile
    assert (run.status, run.get("w").error.code) == ("failed", "child_cancelled")
    assert violations(run) == []


def test_rule_35_a_child_that_was_stopped_and_then_rolled_back_is_not_started_for_ever():
    """It has no later generation: each start was answered by the same end, and led to the next."""
    run = start(node("w", type="workflow", config={"workflow": "inner"}), node("bad"))
    name = child(run, "w")
    run.fail("bad")
    end_child(run, name, "cancelled", orphaned=True)
    run.tell(c.Retry)
    child(run, "w")
    end_child(run, name, "rolled_back", 2, orphaned=True)
    assert effects(run, fx.StartChild) == []
    assert run.get("w").error.code == "child_cancelled"


def test_rule_35_a_child_that_its_parent_stopped_can_be_retried_by_it_and_by_nobody_else():
    run = start(node("a"), node("b", "a"))
    run.complete("a", 1)
    run.begin("b")
    run.tell(c.Cancel, orphaned=True)
    run.fail("b", "cancelled")
    assert (run.status, run.state.orphaned) == ("cancelled", True)
    run.tell(c.Retry)
    assert run.refused.code == "not_failed"
    run.tell(c.Retry, orphaned=True)
    assert (run.status, run.state.generation, run.dispatched()) == ("running", 2, {"b"})


def test_rule_35_a_child_that_a_person_cancelled_stays_cancelled():
    run = start(node("a"))
    run.begin("a")
    run.tell(c.Cancel, by="ann")
    run.fail("a", "cancelled")
    run.tell(c.Retry, orphaned=True)
    assert run.refused.code == "not_failed"


def test_rule_31_runs_are_nested_so_deep_and_no_deeper():
    nodes = (node("w", type="workflow", config={"workflow": "inner"}, on_failure={"path": ["small"]}), node("small"))
    run: Any = Run(compiled(*nodes), depth=MAX_DEPTH)
    run.suspend("w", Wait(kind="child"), workflow="inner")
    assert (run.state_of("w"), run.get("w").error.code) == ("failed", "limit_exceeded")
    assert str(MAX_DEPTH) in run.get("w").error.message
    assert run.dispatched() == {"small"}
    run = Run(compiled(*nodes), depth=MAX_DEPTH - 1)
    run.suspend("w", Wait(kind="child"), workflow="inner")
    assert run.state_of("w") == "waiting"


@pytest.fixture
def endless(monkeypatch):
    """An endless run whose journal is long already."""
    monkeypatch.setattr(continuations, "LONG_JOURNAL", 3)
    loop = {"condition": "output.again", "loop_back_to": "w"}
    ir = compiled({"id": "w", "type": "wait", "config": {"signal": "go"}}, node("x", "w", loop=loop), endless=True)
    return Run(ir, answers={"loop": True})


def continued(run):
    """The run that goes on, from what the old one left."""
    (left,) = effects(run, fx.ContinueRun)
    fields = {name: getattr(left, name) for name in ("adopted", "signals", "signals_seen", "pauses")}
    new = Run(run.ir, start=False, answers={"loop": True})
    new.do(c.Start(at=run.now, run_id=left.run_id, ir=run.ir, origin=("run", ""), **fields))
    return new


def test_rule_15_a_paused_endless_run_continues_paused(endless):
    endless.complete("w", {}, (1,))
    endless.begin("x", (1,))
    endless.tell(c.Pause, reason="audit", by="ann")
    endless.tell(c.Pause, reason="budget", by="meter")
    endless.complete("x", AGAIN, (1,))
    assert (endless.status, endless.state.continued_as) == ("completed", "run~2")
    new = continued(endless)
    assert (new.status, new.state.pauses) == ("paused", {"audit": "ann", "budget": "meter"})
    assert (new.state_of("w", (1,)), new.dispatched()) == ("held", set())
    new.tell(c.Resume)
    assert new.dispatched() == {"w[1]"}


@pytest.fixture
def loops():
    """An endless run whose looping node wishes to go on as a new one."""

    def make(*more, **fields):
        loop = {"condition": "output.again", "loop_back_to": "w"}
        wait = {"id": "w", "type": "wait", "config": {"signal": "go"}}
        ir = compiled(wait, node("x", "w", loop=loop), *more, endless=True)
        run = Run(ir, answers={"loop": False}, **fields)
        run.complete("w", {}, (1,))
        return run

    return make


@pytest.mark.parametrize("inputs", [None, {}, {"page": 2}])
def test_rule_15_a_handler_wishes_that_its_run_goes_on_as_a_new_one(loops, inputs):
    run = loops(inputs={"page": 1})
    run.complete("x", inputs, (1,), renews=True)
    assert (run.status, run.state.continued_as) == ("completed", "run~2")
    (left,) = effects(run, fx.ContinueRun)
    assert left.inputs == ({"page": 1} if inputs is None else inputs)
    assert continued(run).dispatched() == {"w[1]"}
    new = read_continuation(continuation_notice(run.state, left)).start("run~2", run.now, run.ir)
    assert (new.inputs, run.get("x", (1,)).route.rule) == (left.inputs, "loop.renew")


def test_rule_15_the_wish_waits_until_nothing_else_is_open(loops):
    run = loops(node("other"))
    run.complete("x", {"page": 2}, (1,), renews=True)
    assert (run.status, run.state_of("w", (2,))) == ("running", "queued")
    assert "other has not ended" in continuations.say_obstacle(run.state, next(iter(run.state.loops.values())))
    run.complete("other")
    run.complete("w", {}, (2,))
    run.answers["loop"] = True
    run.complete("x", {"page": 9}, (2,))
    (left,) = effects(run, fx.ContinueRun)
    assert (run.state.continued_as, left.inputs) == ("run~2", {"page": 2})


def test_rule_15_a_wish_that_was_kept_is_granted_by_the_retry(loops):
    run = loops(node("other"))
    run.fail("other", retryable=False)
    run.complete("x", {"page": 2}, (1,), renews=True)
    assert run.status == "failed"
    run.tell(c.Retry)
    run.complete("other")
    run.complete("w", {}, (2,))
    run.answers["loop"] = True
    run.complete("x", {}, (2,))
    assert run.state.continued_as == "run~2"
    assert effects(run, fx.ContinueRun)[0].inputs == {"page": 2}


def test_rule_15_a_wish_that_can_never_be_granted_fails_its_node(loops):
    ends = {"condition": "output.again", "loop_back_to": "h", "max_iterations": 3}
    run = Run(compiled(node("h"), node("x", "h", loop=ends)), answers={"loop": True})
    run.complete("h", {}, (1,))
    child = loops(parent=("above", "n", (), None))
    for one in (run, child):
        one.complete("x", {}, (1,), renews=True)
        error = one.get("x", (1,)).error
        assert error is not None
        assert (one.status, error.code) == ("failed", "cannot_continue")
    run = Run(compiled(node("a")))
    run.complete("a", {}, renews=True)
    error = run.get("a").error
    assert error is not None
    assert error.code == "cannot_continue"


def test_rule_15_a_chain_of_runs_has_one_deadline_and_a_retry_the_whole_time_again(monkeypatch):
    monkeypatch.setattr(continuations, "LONG_JOURNAL", 3)
    loop = {"condition": "output.again", "loop_back_to": "w"}
    wait = {"id": "w", "type": "wait", "config": {"signal": "go"}}
    ir = compiled(wait, node("x", "w", loop=loop), endless=True, limits={"deadline_seconds": 100})
    run = Run(ir, answers={"loop": True})
    began = run.now
    run.pass_time(60)
    run.complete("w", {}, (1,))
    run.complete("x", AGAIN, (1,))
    (left,) = effects(run, fx.ContinueRun)
    notice = read_continuation(continuation_notice(run.state, left))
    new = Run(ir, start=False, answers={"loop": True})
    new.now = run.now
    new.do(notice.start(left.run_id, run.now, ir))
    assert (new.state.deadline_at, new.state.deadline_seconds) == (began + 100, 100)
    new.pass_time(41)
    new.withdraw("w", (1,))
    assert new.state.error is not None
    assert (new.status, new.state.error.code) == ("failed", "deadline_exceeded")
    new.tell(c.Retry)
    assert new.state.deadline_at == new.now + 100
    assert [str(found) for found in check(new.journal, new.state.library)] == []


def test_rule_31_a_continuation_begins_with_what_was_done_also_when_a_patch_brought_another_edge(monkeypatch):
    """`max_fanout` is looked at when an outcome is routed. E5 was said to be broken by a run that only went on."""
    monkeypatch.setattr(continuations, "LONG_JOURNAL", 3)
    loop = {"condition": "output.again", "loop_back_to": "w"}
    wait = {"id": "w", "type": "wait", "config": {"signal": "go"}, "dependencies": ["a"]}
    nodes = (node("a"), wait, node("x", "w", loop=loop))
    run = Run(compiled(*nodes, endless=True, limits={"max_fanout": 1}), answers={"loop": True})
    run.complete("a")
    run.ir = compiled(*nodes, node("p", "a"), endless=True, limits={"max_fanout": 1})
    run.tell(c.Patch, ir=run.ir)
    run.complete("p")
    run.complete("w", {}, (1,))
    run.complete("x", AGAIN, (1,))
    new = continued(run)
    assert new.dispatched() == {"w[1]"}
    assert [str(found) for found in check(new.journal, new.state.library)] == []


def test_rule_37_a_signal_that_comes_again_after_a_continuation_counts_once(endless):
    endless.suspend("w", Wait(kind="signal", name="go"), (1,))
    endless.tell(c.Signal, name="go", payload=1, signal="s1")
    endless.tell(c.Signal, name="later", payload=2, signal="s2")
    endless.complete("x", AGAIN, (1,))
    new = continued(endless)
    for again in ("s1", "s2"):
        new.tell(c.Signal, name="go", payload=3, signal=again)
    assert [(name, payload) for _, name, payload in new.state.signals] == [("later", 2)]
    new.tell(c.Signal, name="go", payload=4, signal="s3")
    assert len(new.state.signals) == 2


def test_rule_37_how_many_ids_of_signals_are_carried_on_is_bounded(endless, monkeypatch):
    monkeypatch.setattr(continuations, "SEEN", 2)
    for name in ("s1", "s2", "s3"):
        endless.tell(c.Signal, name="later", signal=name)
    endless.complete("w", {}, (1,))
    endless.complete("x", AGAIN, (1,))
    assert list(continued(endless).state.signals_seen) == ["s2", "s3"]


def test_rule_15_a_run_whose_continuation_cannot_begin_says_so_once(endless):
    endless.complete("w", {}, (1,))
    endless.complete("x", AGAIN, (1,))
    gone = Error("continuation_failed", "its definition is gone")
    endless.tell(c.Undeliver, to="other", error=gone)
    assert endless.events("run.undelivered") == []
    for _ in range(2):
        endless.tell(c.Undeliver, to="run~2", error=gone)
    assert [event.to for event in endless.events("run.undelivered")] == ["run~2"]
    assert (endless.status, endless.state.error) == ("completed", gone)
