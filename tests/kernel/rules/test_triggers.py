"""What comes in for a trigger, and which runs it starts: rules 45 to 50, 52."""

import msgspec
import pytest

from perdure.invariants import mailboxes
from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel import outstanding
from perdure.kernel.facts import trigger_facts
from perdure.kernel.triggers import hand_out, trigger_commands
from perdure.kernel.triggers.mailbox import MOST_BYTES, Over, Policy
from perdure.kernel.triggers.trigger_run import NODE, TRIGGER
from perdure.kernel.values import Error, Fired, Wait
from tests.attack.marks import attack
from tests.kernel.driver import Run, compiled
from tests.kernel.mailboxes import IR_HASH, trigger
from tests.kernel.rules.graphs import effects, node, start


def test_rule_45_items_are_numbered_as_they_come_and_each_has_one_fate():
    run = trigger()
    run.webhook(open=1)
    run.deliver("a", "b", "c")
    run.deliver("d", error=Error("bad_template", "no such field"))
    received = [item.number for event in run.events("trigger.received") for item in event.items]
    assert received == [1, 2, 3, 4]
    assert list(run.box.waiting) == [2, 3]
    assert [firing.number for firing in run.box.open.values()] == [1]
    assert list(run.box.parked) == [4]


def test_rule_45_an_item_that_comes_again_is_the_same_item():
    run = trigger()
    run.webhook()
    run.deliver("a", "a")
    known = len(run.journal)
    assert run.deliver("a").events == ()
    run.end(*run.box.open)
    assert run.deliver("a").events == ()
    assert len(run.journal) == known + 1
    assert len(run.runs) == 1


def test_rule_47_an_item_that_is_no_longer_known_asks_for_the_run_it_had(monkeypatch: pytest.MonkeyPatch):
    """Behind the ids that a mailbox knows, the id of the run is the second line: it is the same, and there already (G13)."""
    for owner in (trigger_facts, mailboxes):
        monkeypatch.setattr(owner, "SEEN", 2)
    run = trigger()
    run.webhook()
    run.deliver("a", "b", "c")
    assert run.deliver("b").events == ()
    first = run.started[0].run_id
    assert first not in run.box.seen
    run.end(*run.box.open)
    run.deliver("a")
    assert [one.run_id for one in run.started if one.run_id == first] == [first, first]
    run.end(first, state="duplicate")
    assert not run.box.open


def test_rule_45_what_was_mapped_by_an_old_revision_is_refused():
    run = trigger()
    run.webhook({"n": 1})
    run.webhook({"n": 2})
    assert run.box.revision == 2
    run.tell(c.Deliver, items=(c.Delivered(id="a"),), revision=1)
    assert run.refused.code == "stale_revision"
    run.tell(c.Fire, firing="x", revision=1)
    assert run.refused.code == "stale_revision"
    run.webhook({"n": 2})
    assert run.box.revision == 2


def test_rule_45_a_full_mailbox_takes_nothing_and_one_key_takes_a_tenth():
    run = trigger()
    run.webhook(open=1, buffer=20, per_key=1)
    run.deliver("a", "b", key="k")
    run.deliver("c", key="k")
    run.deliver("d", key="k")
    assert run.refused.code == "trigger_full"
    run.deliver(*(f"n{n}" for n in range(18)))
    run.deliver("last")
    assert run.refused.code == "trigger_full"
    assert len(run.box.waiting) == 20


@attack("X28", "items that are few and take all memory")
def test_rule_45_what_waits_has_a_sum_of_bytes_too_and_a_source_is_not_asked_while_that_is_full():
    run = trigger()
    run.webhook(open=1)
    half = MOST_BYTES // 2
    run.deliver("a", size=half)
    run.deliver("b", size=half)
    run.deliver("c", size=half)
    run.deliver("d", size=1)
    assert run.refused.code == "trigger_full"
    assert (run.box.bytes, len(run.box.waiting)) == (2 * half, 2)
    run.end(*run.box.open)
    run.deliver("d", size=half)
    assert run.box.bytes == 2 * half
    polled = trigger()
    polled.table(open=1)
    items = tuple(c.Delivered(id=name, size=half) for name in ("a", "b", "c"))
    polled.receive("c", items=items)
    assert (polled.polls, polled.box.bytes) == ([], 2 * half)
    polled.end(*polled.box.open)
    assert (polled.polls, polled.box.bytes) == ([3], half)


@attack("X28", "a trigger that is fired by hand again and again while it may start nothing")
def test_rule_45_what_is_fired_by_hand_has_a_number_too():
    run = trigger()
    run.webhook(open=1, buffer=3, overlap="allow")
    run.do(c.Pause(at=run.now))
    for number in range(3):
        run.fire(f"f{number}")
    assert run.fire("f2").events == ()  # known: it is the same firing
    assert run.fire("f3").code == "trigger_full"
    assert len(run.box.waiting) == 3


def test_rule_46_items_start_in_order_as_far_as_the_limit_allows():
    run = trigger()
    run.webhook(open=2)
    run.deliver("a", "b", "c", "d")
    assert [start.item for start in run.started] == ["a", "b"]
    run.end(run.started[1].run_id)
    assert [start.item for start in run.started] == ["a", "b", "c"]


def test_rule_46_an_item_waits_behind_earlier_ones_of_its_key():
    run = trigger()
    run.webhook(open=3, per_key=1)
    run.deliver("a1", "a2", "a3", key="a")
    run.deliver("b1", "b2", key="b")
    run.deliver("c1", key="c")
    assert [start.item for start in run.started] == ["a1", "b1", "c1"]
    run.end(run.started[2].run_id)
    assert [start.item for start in run.started] == ["a1", "b1", "c1"]
    run.end(run.started[0].run_id)
    assert [start.item for start in run.started][3:] == ["a2"]


def test_rule_46_nothing_starts_while_the_trigger_is_paused():
    run = trigger()
    run.webhook()
    run.tell(c.Pause)
    run.deliver("a", "b")
    assert run.runs == []
    run.tell(c.Resume)
    assert [start.item for start in run.started] == ["a", "b"]


def test_rule_46_one_decision_starts_so_many_runs_and_a_timer_goes_on(monkeypatch):
    monkeypatch.setattr(hand_out, "MOST_STARTS", 3)
    run = trigger()
    run.webhook()
    run.deliver(*"abcdefg")
    assert len(run.started) == 3
    run.pass_time(0)
    assert len(run.started) == 7
    assert run.state.timers == {}


def test_rule_47_the_run_of_an_item_derives_from_what_the_source_calls_it():
    first, second = trigger(), trigger()
    for run, ids in ((first, ("a", "b")), (second, ("b", "a"))):
        run.webhook()
        run.deliver(*ids)
    assert sorted(first.runs) == sorted(second.runs)
    assert all(start.run_id.startswith("tr~i") for start in first.started)
    first.fire("by-hand")
    assert first.started[-1].run_id.startswith("tr~m")


def test_rule_47_a_start_says_which_firing_it_is():
    run = trigger()
    run.webhook()
    run.deliver("a", inputs={"n": 1}, depth=2)
    (begun,) = run.started
    assert begun.trigger == Fired("tr", 1, 3, report=True)
    assert (begun.workflow, begun.version, begun.ir, begun.inputs) == ("report", 1, IR_HASH, {"n": 1})
    (event,) = run.events("trigger.started")
    assert event.starts[0].run_id == begun.run_id
    assert e.decode(e.encode(event)) == event


def test_rule_48_skip_leaves_out_what_comes_while_a_run_is_open():
    run = trigger()
    run.schedule()
    run.pass_time(150)
    assert (len(run.runs), run.skipped) == (1, [("overlap", (2,)), ("overlap", (3,))])


def test_rule_48_buffer_one_keeps_the_first_that_waits():
    run = trigger()
    run.schedule(overlap="buffer_one")
    run.pass_time(150)
    assert list(run.box.waiting) == [2]
    assert run.skipped == [("overlap", (3,))]
    run.end(*run.box.open)
    assert [start.trigger.number for start in run.started] == [1, 2]


def test_rule_48_buffer_keeps_as_many_as_it_may():
    run = trigger()
    run.schedule(overlap="buffer", buffer=2)
    run.pass_time(240)
    assert list(run.box.waiting) == [2, 3]
    assert run.skipped == [("limit", (4,))]


def test_rule_48_cancel_stops_the_open_run_and_starts_the_newest_when_it_has_ended():
    run = trigger()
    run.schedule(overlap="cancel")
    run.pass_time(20)
    first = run.started[0].run_id
    run.pass_time(60)
    assert run.stops == [fx.StopRun(run_id=first, number=1)]
    assert run.runs == ["t1000020"]
    run.pass_time(60)
    assert run.skipped == [("superseded", (2,))]
    assert outstanding.outstanding(run.state) == [fx.StopRun(run_id=first, number=1)]
    run.end(first, state="cancelled")
    assert run.runs == ["t1000020", "t1000140"]
    assert outstanding.outstanding(run.state) == []


def test_rule_48_terminate_stops_by_force():
    run = trigger()
    run.schedule(overlap="terminate")
    run.pass_time(80)
    assert [stop.force for stop in run.stops] == [True]


def test_rule_48_allow_never_waits_and_its_runs_report_nothing():
    run = trigger()
    run.schedule(overlap="allow")
    run.pass_time(140)
    assert len(run.runs) == 3
    assert not run.box.open
    assert [start.trigger.report for start in run.started] == [False] * 3


def test_rule_48_a_firing_by_hand_obeys_it_unless_it_says_otherwise():
    run = trigger()
    run.schedule()
    run.fire("one")
    run.fire("two")
    run.fire("three", overlap="allow")
    run.fire("three", overlap="allow")
    run.fire("four", overlap="buffer")
    assert [start.item for start in run.started] == ["one", "three"]
    assert run.skipped == [("overlap", (2,))]
    assert list(run.box.waiting) == [4]


def test_rule_49_an_end_counts_once_and_for_the_firing_it_is_about():
    run = trigger()
    run.schedule(overlap="buffer")
    run.pass_time(80)
    first = run.started[0].run_id
    assert run.tell(c.EndFiring, ends=(Over(first, 7, "completed"),)).events == ()
    run.end(first)
    assert len(run.runs) == 2
    assert run.tell(c.EndFiring, ends=(Over(first, 1, "failed"),)).events == ()
    assert run.box.failures == 0


def test_rule_49_a_lost_run_is_counted_no_more():
    run = trigger()
    run.schedule(overlap="buffer")
    run.pass_time(80)
    run.end(run.started[0].run_id, state="lost")
    assert len(run.runs) == 2


def test_rule_49_a_run_reports_its_end_to_the_trigger_in_the_commit_of_the_end():
    fired = Fired("tr", 4)
    run = start(node("a"))
    run.do(c.Fail(at=run.now, address=run.state.address(run.get("a")), error=Error("x"), retryable=False))
    assert effects(run, fx.NotifyTrigger) == []
    run = _fired(node("a"), fired=fired)
    run.complete("a")
    assert effects(run, fx.NotifyTrigger) == [fx.NotifyTrigger(trigger=fired, state="completed")]
    run = _fired(node("a"), fired=fired)
    run.tell(c.Cancel, force=True)
    assert effects(run, fx.NotifyTrigger) == [fx.NotifyTrigger(trigger=fired, state="cancelled")]
    run = _fired(node("a"), fired=Fired("tr", 4, report=False))
    run.complete("a")
    assert effects(run, fx.NotifyTrigger) == []


def _fired(*nodes, fired):
    return Run(compiled(*nodes), trigger=fired)


def test_rule_50_what_can_start_no_run_is_parked_and_the_others_go_on():
    run = trigger()
    run.webhook()
    run.tell(
        c.Deliver,
        items=(c.Delivered(id="a", inputs={"bad": True}), c.Delivered(id="b"), c.Delivered(id="c", depth=10)),
        revision=1,
    )
    assert [start.item for start in run.started] == ["b"]
    assert {n: one.error.code for n, one in run.box.parked.items()} == {1: "invalid_inputs", 3: "trigger_cycle"}
    assert run.status == "running"


def test_rule_50_a_trigger_that_stops_at_poison_starts_what_comes_before_it():
    run = trigger()
    run.webhook(on_poison="stop")
    given = (c.Delivered(id="a"), c.Delivered(id="b", inputs={"bad": True}), c.Delivered(id="c"))
    run.tell(c.Deliver, items=given, revision=1)
    assert [start.item for start in run.started] == ["a"]
    assert (run.status, run.state.pauses) == ("paused", {"poison": "trigger"})
    run.tell(c.Settle, number=2, as_="skip", by="ann")
    run.tell(c.Resume)
    assert [start.item for start in run.started] == ["a", "c"]


def test_rule_50_a_parked_item_is_mapped_anew_or_given_up():
    run = trigger()
    run.webhook()
    run.deliver("a", "b", error=Error("bad_template", "no such field"))
    run.tell(c.Settle, number=1, inputs={"n": 1}, key="k", revision=1)
    run.tell(c.Settle, number=2, as_="skip")
    assert [(start.item, start.inputs) for start in run.started] == [("a", {"n": 1})]
    run.tell(c.Settle, number=2, as_="skip")
    assert run.refused.code == "not_parked"
    assert not run.box.parked


def test_rule_50_much_poison_pauses_the_trigger(monkeypatch):
    monkeypatch.setattr(hand_out, "MOST_PARKED", 3)
    run = trigger()
    run.webhook()
    run.deliver("a", "b", error=Error("bad_template"))
    assert run.status == "running"
    run.deliver("c", error=Error("bad_template"))
    assert run.status == "paused"


def test_rule_50_a_deleted_trigger_leaves_no_item_without_a_fate():
    run = trigger()
    run.webhook(open=1)
    run.deliver("a", "b", "c")
    run.tell(c.Cancel)
    assert run.status == "cancelled"
    assert run.skipped == [("deleted", (2, 3))]


def test_rule_52_what_comes_for_a_run_that_has_gone_on_is_told_where(monkeypatch):
    monkeypatch.setattr(trigger_commands, "LONG_MAILBOX", 12)
    run = trigger()
    run.webhook()
    for name in "abcdefgh":
        run.deliver(name)
        if run.state.terminal:
            break
    assert (run.status, run.state.continued_as) == ("completed", "tr~2")
    for command in (
        c.Deliver(at=run.now, items=(c.Delivered(id="x"),), revision=1),
        c.Fire(at=run.now, firing="x", revision=1),
        c.EndFiring(at=run.now, ends=()),
        c.Pause(at=run.now),
        c.Cancel(at=run.now),
        c.Signal(at=run.now, name="go"),
    ):
        refused = run.do(command)
        assert (refused.code, refused.continued_as) == ("continued", "tr~2")


def test_rule_52_a_loop_that_has_gone_on_says_so_too(monkeypatch):
    monkeypatch.setattr("perdure.kernel.continuations.LONG_JOURNAL", 4)
    wait = {"id": "w", "type": "wait", "config": {"signal": "go"}}
    run = start(
        wait, node("x", "w", loop={"condition": "output.again", "endless": True, "loop_back_to": "w"}), endless=True
    )
    run.tell(c.Signal, name="go")
    run.suspend("w", Wait(kind="signal", name="go"), (1,))
    run.complete("x", {"again": True}, (1,))
    assert run.state.continued_as == "run~2"
    run.tell(c.Signal, name="go")
    assert (run.refused.code, run.refused.continued_as) == ("continued", "run~2")


def test_rule_49_a_trigger_goes_on_as_a_new_run_with_all_it_holds(monkeypatch):
    monkeypatch.setattr(trigger_commands, "LONG_MAILBOX", 14)
    run = trigger()
    run.schedule(overlap="buffer")
    run.tell(c.Pause, reason="a person", by="ann")
    run.tell(c.Resume)
    run.fire("one", inputs={"n": 1})
    run.fire("two", inputs={"n": 2})
    while not run.state.terminal:
        run.pass_time(60)
    (went,) = effects(run, fx.ContinueRun)
    sent = msgspec.json.decode(msgspec.json.encode(went), type=fx.ContinueRun)
    monkeypatch.setattr(trigger_commands, "LONG_MAILBOX", 1000)
    after = trigger(now=run.now, went=sent)
    assert (after.box.trigger, after.box.position, after.box.revision) == ("tr", run.box.position, 1)
    assert after.box.waiting == run.box.waiting
    assert after.box.open == run.box.open
    assert after.state.timers["trigger:receive"].due_at > run.now
    assert after.fire("one").events == ()
    after.end(*after.box.open)
    assert (after.started[0].item, after.started[0].inputs, after.started[0].run_id[:4]) == ("two", {"n": 2}, "tr~m")
    known = after.box.position
    after.pass_time(60)
    assert after.box.position == known + 1


def test_rule_49_the_run_of_a_trigger_is_one_node_that_waits():
    assert [one.id for one in TRIGGER.nodes if one is not None] == [NODE]
    run = trigger()
    assert run.state_of(NODE) == "waiting"
    run.tell(c.Register, node="other", name="x", kind="webhook", policy=Policy())
    assert run.refused.code == "no_trigger"
    run.tell(c.Fire, firing="x", revision=1)
    assert run.refused.code == "not_registered"
    run.webhook()
    run.schedule()
    assert run.refused.code == "kind_changed"


def test_rule_49_a_trigger_is_registered_anew_and_not_patched():
    run = trigger()
    run.webhook()
    run.tell(c.Patch, ir=compiled(node("a")))
    assert run.refused.code == "patch_refused"
