"""Triggers inside a run: rule 54."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.invariants import Checker
from perdure.kernel import commands as c
from perdure.kernel import continuations, outstanding, snapshot
from perdure.kernel import effects as fx
from perdure.kernel.readings.run_view import about_view, run_view
from perdure.kernel.segments import BlobRef
from perdure.kernel.values import Error
from tests.kernel.driver import compiled
from tests.kernel.inner_triggers import Inner, graph
from tests.kernel.rules.graphs import node

HASH = "sha256:" + "5" * 64


def polling(**fields: Any) -> Any:
    """A run whose trigger polls."""
    run: Any = Inner(**fields)
    run.wait()
    return run


def listening(**fields: Any) -> Any:
    run: Any = Inner()
    run.wait(kind="event", topic="event:paid", cursor="0", **fields)
    return run


def test_rule_54_the_first_activation_registers_and_what_a_poll_brings_is_its_outcome():
    run = polling()
    (registered,) = run.events("trigger.registered")
    assert (registered.inner, registered.version, run.box.trigger, run.polls) == (True, 2, "run", [2])
    run.receive("a")
    assert (run.get("take", (1,)).output, run.state_of("work", (1,)), run.box.cursor) == ({"n": "a"}, "queued", "a")
    (handed,) = run.events("trigger.handed")
    assert (handed.number, handed.scope, run.box.waiting) == (1, (1,), {})


def test_rule_54_what_a_poll_brought_is_taken_in_order_before_anything_is_polled():
    run = polling()
    run.receive("a", "b", "c")
    for iteration in (1, 2):
        run.work((iteration,))
        assert run.polls == [1]
        run.wait((iteration + 1,))
    assert (run.taken(), len(run.events("trigger.received")), run.box.waiting) == (["a", "b", "c"], 1, {})
    run.work((3,))
    assert run.polls == [1]  # nothing waits, so this attempt polls
    run.receive("d", scope=(4,))
    assert run.taken() == ["a", "b", "c", "d"]


def test_rule_54_consuming_at_100_and_killed_exactly_101_to_105_come_in_order():
    """Whichever state the process died in: the fold of what was written takes the next item."""
    for brought in (("101", "102", "103", "104", "105"), ("101", "102"), ("101",)):
        run = polling()
        run.receive("100")
        run.work((1,))
        seen, left = 1, ["101", "102", "103", "104", "105"]
        while left:
            run.state = snapshot.decode(snapshot.encode(run.state), run.state.library)  # another process
            seen += 1
            if not run.box.waiting:
                run.receive(*([one for one in brought if one in left] or left[:1]), scope=(seen,))
            else:
                run.wait((seen,))
            left.pop(0)
            run.work((seen,))
        assert run.taken() == ["100", "101", "102", "103", "104", "105"]


def test_rule_54_only_the_current_poll_of_the_current_iteration_counts():
    run = polling()
    run.receive("a")
    run.receive("b")  # the same attempt, which is done
    run.work((1,))
    run.receive("b", scope=(1,))
    assert (run.taken(), run.box.cursor) == (["a"], "a")
    run.receive("b", scope=(2,), after="elsewhere")
    assert (run.state_of("take", (2,)), run.get("take", (2,)).error.code) == ("retrying", "stale_cursor")
    run.pass_time(2)
    run.receive("b", scope=(2,))
    assert run.taken() == ["a", "b"]


def test_rule_54_an_attempt_of_one_iteration_is_not_taken_for_that_of_another():
    run = polling()
    run.receive("a")
    run.work((1,))
    run.lapse("take", (2,))
    assert (run.get("take", (2,)).attempt, run.polls) == (
        2,
        [2],
    )  # as the attempt that brought `a` in the iteration before
    run.complete("end")
    run.tell(c.Signal, name="anything")
    assert (run.get("take", (2,)).attempt, run.polls) == (2, [])


def test_rule_54_a_poll_that_brings_nothing_moves_the_cursor_and_polls_on():
    run = polling()
    run.receive(items=(), cursor="7", filtered=3)
    assert (run.box.cursor, run.polls, run.taken()) == ("7", [3], [])
    run.receive("a")
    assert run.taken() == ["a"]


def test_rule_54_events_come_in_while_nobody_waits_and_each_is_taken_once():
    run = listening()
    assert (run.state_of("take", (1,)), run.get("take", (1,)).wait.kind) == ("waiting", "trigger")
    run.hear("e1", cursor=1)
    run.hear("e2", "e3", cursor=3)
    assert (run.taken(), sorted(run.box.waiting)) == (["e1"], [2, 3])
    for iteration in (1, 2):
        run.work((iteration,))
        run.wait((iteration + 1,), kind="event")
    assert run.taken() == ["e1", "e2", "e3"]
    run.hear("e3", cursor=4)
    assert run.skipped == [("duplicate", 1)]


def test_rule_54_what_waits_is_not_more_than_the_buffer():
    run = listening(buffer=2)
    run.hear("e1", "e2", "e3", cursor=3)
    run.hear("e4", cursor=4)
    assert (run.refused.code, run.taken()) == ("trigger_full", ["e1"])


def test_rule_54_moments_are_taken_as_they_are_due():
    run: Any = Inner()
    run.now = 1_000_000.0
    run.wait(kind="schedule", spec={"every": 60.0}, catchup="all", buffer=2)
    run.pass_time(60)
    assert run.get("take", (1,)).output == {"at": 1_000_020.0}
    run.pass_time(180)  # three more, and two may wait
    assert ([item.nominal for item in run.box.waiting.values()], run.skipped) == (
        [1_000_080.0, 1_000_140.0],
        [("limit", (4,))],
    )


@pytest.mark.parametrize("spec", [{"bad": True, "every": 60.0}, {"every": 60.0, "stop": 5.0}])
def test_rule_54_a_schedule_that_has_no_moments_fails_the_node(spec):
    run: Any = Inner()
    run.wait(kind="schedule", spec=spec)
    assert (run.status, run.state.triggers, run.state.error.code in ("bad_schedule", "no_more_moments")) == (
        "failed",
        {},
        True,
    )


def test_rule_54_nothing_is_handed_over_while_the_run_is_paused():
    run = listening()
    run.hear("e1", "e2", cursor=2)
    run.work((1,))
    run.tell(c.Pause)
    run.wait((2,), kind="event")
    assert (run.taken(), run.state_of("take", (2,))) == (["e1"], "waiting")
    run.tell(c.Resume)
    assert run.taken() == ["e1", "e2"]


def test_rule_54_a_pause_stops_the_poll_and_what_comes_after_it_begins_at_the_cursor():
    run = polling()
    run.tell(c.Pause)
    assert (run.stopped, run.state_of("take", (1,))) == ([2], "waiting")
    run.receive("a", attempt=2)
    assert (run.taken(), run.box.cursor) == ([], None)
    run.tell(c.Resume)
    assert run.polls == [3]
    run.receive("a")
    assert run.taken() == ["a"]


def test_rule_54_a_run_that_fails_does_not_wait_for_a_poll_and_retried_it_polls_on():
    run: Any = Inner(compiled(*graph(), node("side")))
    run.wait()
    run.receive("a", "b")
    run.work((1,))
    run.wait((2,))
    run.work((2,))
    assert (run.polls, run.taken()) == ([1], ["a", "b"])
    run.fail("side")
    assert (run.status, run.stopped) == ("failed", [1])
    run.tell(c.Retry)
    assert (run.state_of("take", (3,)), run.polls) == ("queued", [2])
    run.receive("c", scope=(3,), attempt=1, generation=1)
    assert run.taken() == ["a", "b"]
    run.receive("c", scope=(3,))
    assert run.taken() == ["a", "b", "c"]


def test_rule_54_a_schedule_goes_on_when_the_run_is_retried():
    run: Any = Inner(compiled(*graph(), node("side")))
    run.now = 1_000_000.0
    run.wait(kind="schedule", spec={"every": 60.0})
    run.fail("side")
    assert (run.status, run.state.timers) == ("failed", {})
    run.now += 300
    run.tell(c.Retry)
    run.wait(kind="schedule", spec={"every": 60.0}, attempt=2)
    assert run.get("take", (1,)).output == {"at": 1_000_260.0}
    assert "trigger:take" in run.state.timers


def test_rule_54_cancelling_keeps_what_waits_where_it_is():
    run = listening()
    run.hear("e1", "e2", cursor=2)
    run.tell(c.Cancel, force=True)
    assert (run.status, list(run.box.waiting), run.skipped) == ("cancelled", [2], [])


def test_rule_54_a_source_that_has_ended_fails_the_node_when_nothing_waits():
    run = polling()
    run.receive("a", "b", end=True)
    run.work((1,))
    run.wait((2,))
    run.work((2,))
    assert (run.taken(), run.status) == (["a", "b"], "running")
    run.wait((3,))
    assert (run.status, run.state.error.code) == ("failed", "source_ended")


def test_rule_54_a_source_that_ends_with_nothing_fails_the_node_at_once():
    run = polling()
    run.receive(items=(), cursor="9", end=True)
    assert run.state.error.code == "source_ended"


def test_rule_54_what_cannot_be_read_is_parked_and_may_be_taken_later():
    run = polling()
    bad = c.Delivered(id="x", error=Error("unreadable", "no"))
    run.receive(items=(bad, c.Delivered(id="y", inputs={"n": "y"})), cursor="y")
    assert (run.taken(), list(run.box.parked)) == (["y"], [1])
    run.work((1,))
    assert run.polls == [1]
    run.tell(c.Settle, node="take", number=1, inputs={"n": "x"}, revision=1)
    assert (run.taken(), run.stopped, run.box.parked) == (["y", "x"], [1], {})


def test_rule_54_what_is_parked_is_shown_with_its_node_and_counted_as_dead_letters():
    run = polling()
    bad = [c.Delivered(id=name, error=Error("unreadable", name)) for name in ("x", "y")]
    run.receive(items=tuple(bad), cursor="y")
    shown = run_view(run.state)["nodes"]["take"]["parked"]
    assert (shown["count"], shown["error"]["message"], about_view(run.state)["dlq_count"]) == (2, "y", 2)
    run.tell(c.Settle, node="take", number=2, as_="skip", revision=1)
    shown = run_view(run.state)["nodes"]["take"]["parked"]
    assert (shown["count"], shown["error"]["message"], about_view(run.state)["dlq_count"]) == (1, "x", 1)
    run.tell(c.Cancel, reason="")
    assert run.state.terminal
    assert "parked" not in run_view(run.state)["nodes"]["take"]
    assert about_view(run.state)["dlq_count"] == 0


def test_rule_54_a_large_item_stays_a_blob():
    run = polling()
    run.receive(items=(c.Delivered(id="x", inputs=BlobRef(HASH), size=9),), cursor="x")
    assert (run.get("take", (1,)).output_ref, run.get("take", (1,)).output) == (HASH, None)


def test_rule_54_the_run_that_continues_has_the_mailbox(monkeypatch):
    monkeypatch.setattr(continuations, "LONG_JOURNAL", 5)
    run = polling()
    run.receive("a", "b", "c")
    run.work((1,))
    went = next(one for one in run.effects if isinstance(one, fx.ContinueRun))
    after: Any = Inner(run.ir, went=went)
    assert (after.box.trigger, list(after.box.waiting), after.box.cursor) == ("run", [2, 3], "c")
    after.wait((1,))
    after.work((1,))
    assert after.taken() == ["b"]


def test_rule_54_a_patch_does_not_change_a_trigger_that_is_registered():
    run, more = polling(), compiled(*graph(), node("more", "work"))
    for other in (graph(config={"event": {"name": "other"}}), [graph()[0] | {"type": "wait"}, *graph()[1:]]):
        run.tell(c.Patch, ir=compiled(*other))
        assert run.refused.code == "patch_refused"
        assert "'take'" in run.refused.message
    run.checker = Checker({run.ir.hash: run.ir, more.hash: more})
    run.fed = 0
    run.tell(c.Patch, ir=more)
    assert run.refused is None


def test_rule_54_a_run_with_a_trigger_tells_its_topic_that_it_has_ended():
    run = listening()
    run.hear("e1", cursor=1)
    run.work((1,), again=False)
    run.complete("end")
    assert (run.status, [one.state for one in run.effects if isinstance(one, fx.TellTopic)]) == (
        "completed",
        ["completed"],
    )


def test_rule_54_a_stopped_poll_is_stopped_again_after_a_crash():
    run = polling()
    run.tell(c.Pause)
    assert [one.address.attempt for one in outstanding.outstanding(run.state) if isinstance(one, fx.Stop)] == [2]


def test_rule_54_an_answer_that_comes_twice_changes_nothing():
    run = listening()
    before = run.state.seq
    run.wait(kind="event")
    assert run.state.seq == before
    run.hear("e1", cursor=1)
    before = run.state.seq
    run.wait(kind="event")
    assert run.state.seq == before
