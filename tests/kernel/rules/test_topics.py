"""Rule 53: what happens on a topic is read behind a cursor, in order and each once."""

from __future__ import annotations

import msgspec
import pytest

from perdure.invariants import Checker
from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.triggers import trigger_commands
from perdure.kernel.triggers.mailbox import MOST_BYTES, run_of_item
from perdure.kernel.triggers.trigger_run import TRIGGER
from tests.attack.marks import attack
from tests.kernel.driver import Run, compiled
from tests.kernel.mailboxes import TriggerRun, trigger
from tests.kernel.rules.graphs import node


def test_rule_53_items_come_in_with_the_cursor_and_once():
    run = trigger()
    run.listen(cursor="7", open=1)
    run.hear("a", "b", cursor=9)
    assert (run.box.cursor, run.box.position, list(run.box.waiting)) == ("9", 2, [2])
    assert run.runs == [run_of_item("", "a").removeprefix("~")]
    run.hear("b", "c", cursor=12)  # its sender gave it a second id in the log of a restored database
    assert (run.box.cursor, run.box.position, run.skipped) == ("12", 3, [("duplicate", 1)])
    run.hear(cursor=15, filtered=3)
    assert (run.box.cursor, run.skipped[-1]) == ("15", ("filter", 3))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"after": "0", "cursor": 9}, "stale_cursor"),
        ({"cursor": 7}, "stale_cursor"),
        ({"cursor": 9, "revision": 0}, "stale_revision"),
    ],
)
def test_rule_53_what_was_read_behind_another_cursor_or_mapped_by_another_revision_is_refused(fields, code):
    run = trigger()
    run.listen(cursor="7")
    assert run.hear("a", **fields).code == code
    assert (run.box.cursor, run.box.position) == ("7", 0)


def test_rule_53_a_paused_or_full_trigger_reads_nothing_and_keeps_its_cursor():
    run = trigger()
    run.listen(open=1, buffer=1)
    run.hear("a", "b", "c", cursor=3)
    assert run.hear("d", cursor=4).code == "trigger_full"
    run.end(*run.box.open)
    run.end(*run.box.open)
    run.do(c.Pause(at=run.now))
    assert run.hear("d", cursor=4).code == "trigger_paused"
    run.do(c.Resume(at=run.now))
    run.hear("d", cursor=4)
    assert (run.box.cursor, run.box.position) == ("4", 4)


@attack("X28", "events that are large together, for a trigger that cannot start runs")
def test_rule_53_nothing_is_read_while_what_waits_is_as_large_as_may_be():
    run = trigger()
    run.listen(open=1)
    half = MOST_BYTES // 2
    run.hear(cursor=3, items=tuple(c.Delivered(id=name, size=half) for name in ("a", "b", "c")))
    assert (run.box.bytes, len(run.box.waiting)) == (2 * half, 2)
    assert run.hear("d", cursor=4).code == "trigger_full"
    run.end(*run.box.open)
    run.hear("d", cursor=4)
    assert run.box.cursor == "4"


def test_rule_53_another_topic_begins_now_and_the_same_one_goes_on():
    run = trigger()
    run.listen(cursor="7")
    run.hear("a", cursor=9)
    run.listen(cursor="30", spec={"n": 2})
    assert (run.box.cursor, run.box.revision) == ("9", 2)
    run.listen("event:sent", cursor="30", spec={"n": 3})
    assert (run.box.cursor, run.box.topic, run.box.revision) == ("30", "event:sent", 3)
    assert run.deliver("x").code == "not_a_hook"
    hook = trigger()
    hook.webhook()
    assert hook.hear("x", cursor=3).code == "not_listening"


def test_rule_53_a_trigger_that_goes_on_as_a_new_run_reads_on(monkeypatch):
    monkeypatch.setattr(trigger_commands, "LONG_MAILBOX", 5)
    run = trigger()
    run.listen(cursor="7")
    run.hear("a", cursor=9)
    (went,) = [one for one in run.effects if isinstance(one, fx.ContinueRun)]
    after = TriggerRun(went=went)
    assert (after.box.cursor, after.box.topic) == ("9", "event:paid")
    after.hear("a", "b", cursor=11)
    assert [event.reason for event in after.events("trigger.skipped")] == ["duplicate"]


def test_rule_53_the_end_of_a_run_happens_unless_it_is_a_child_or_goes_on():
    ir = compiled(node("a"))
    run = Run(ir)
    run.complete("a")
    assert [one for one in run.effects if isinstance(one, fx.TellTopic)] == [fx.TellTopic(state="completed")]
    run = Run(ir, start=False)
    run.do(c.Start(at=1.0, run_id="r:c", ir=ir, parent=("r", "c", (), None)))
    run.complete("a")
    assert [one for one in run.effects if isinstance(one, fx.TellTopic)] == []


def test_the_checker_sees_a_cursor_that_goes_back_or_stays():
    run = trigger()
    run.listen(cursor="7")
    run.hear("a", cursor=9)
    for cursor in ("9", "8"):
        checker = Checker({TRIGGER.hash: TRIGGER})
        broken = []
        for event in run.journal:
            if event.type == "trigger.received":
                event = msgspec.structs.replace(event, cursor=cursor, after="9")
            elif event.type == "trigger.registered":
                event = msgspec.structs.replace(event, cursor="9")
            broken += checker.feed(event)
        assert "TG2" in {one.id for one in broken}
