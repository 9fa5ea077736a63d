"""What a source is asked, and what of its answers counts: rule 51."""

import msgspec
import pytest

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel import outstanding
from perdure.kernel.triggers import poll_stops, trigger_commands
from perdure.kernel.triggers.trigger_run import NODE
from perdure.kernel.values import Error
from perdure.runtime.coordinator.triggers.trigger_rows import trigger_row
from tests.kernel.mailboxes import trigger


def test_rule_51_a_poll_is_an_attempt_and_its_items_come_with_the_cursor():
    run = trigger()
    run.table()
    assert (run.polls, run.box.cursor) == ([2], None)
    run.receive("a", "b")
    (received,) = run.events("trigger.received")
    assert (received.after, received.cursor, received.poll) == (None, "b", 2)
    assert [start.item for start in run.started] == ["a", "b"]
    assert (run.polls, run.box.cursor) == ([3], "b")


def test_rule_51_an_idle_source_writes_nothing():
    run = trigger()
    run.table()
    known = len(run.journal)
    run.pass_time(1_000_000)
    assert len(run.journal) == known


def test_rule_51_only_the_current_attempt_counts():
    run = trigger()
    run.table()
    run.receive("a")
    for attempt in (2, 1):
        run.receive("b", attempt=attempt)
        assert run.box.cursor == "a"
    assert [event.attempt for event in run.events("result.ignored")] == [2]
    run.receive("b", attempt=3)
    assert [start.item for start in run.started] == ["a", "b"]


def test_rule_51_only_what_began_at_the_cursor_counts():
    run = trigger()
    run.table()
    run.receive("a")
    run.receive("b", after="elsewhere")
    assert (run.box.cursor, run.state_of(NODE), run.get(NODE).error.code) == ("a", "retrying", "stale_cursor")


def test_rule_51_only_the_current_revision_counts_and_what_maps_otherwise_keeps_the_poll():
    run = trigger()
    run.table({"n": 1})
    run.table({"n": 2})
    assert (run.polls, run.box.revision) == ([], 2)
    run.receive("a", revision=1)
    assert run.refused.code == "stale_revision"
    run.receive("a")
    assert run.box.cursor == "a"


def test_rule_51_another_source_says_where_it_begins_and_the_poll_in_flight_is_void():
    run = trigger()
    run.table()
    run.receive("a")
    run.table({"n": 2}, source="other")
    assert run.refused.code == "from_needed"
    run.table({"n": 2}, source="other", begins="start")
    assert (run.box.cursor, run.box.begins, run.polls) == (None, "start", [4])
    assert [effect.address.attempt for effect in run.effects if isinstance(effect, fx.Stop)] == [3]
    run.receive("x", attempt=3, after="a")
    assert run.box.cursor is None
    run.table({"n": 3}, source="third", begins="cursor")
    assert (run.box.cursor, run.box.begins) == (None, "")


def test_rule_51_a_source_that_is_read_otherwise_goes_on_from_its_cursor():
    run = trigger()
    run.table(manner="10s")
    run.receive("a")
    run.table({"n": 2}, manner="20s")
    assert (run.box.cursor, run.polls) == ("a", [4])


def test_rule_51_a_poll_is_sent_only_where_there_is_room():
    run = trigger()
    run.table(open=1, buffer=2)
    run.receive("a", "b", "c", "d")
    assert (run.polls, run.state_of(NODE), len(run.box.waiting)) == ([], "waiting", 3)
    run.end(run.started[0].run_id)
    assert (run.polls, run.state_of(NODE)) == ([], "waiting")
    run.end(run.started[1].run_id)
    assert run.polls == [3]


def test_rule_51_what_the_cursor_has_passed_is_never_dropped_for_want_of_room():
    run = trigger()
    run.table(open=1, buffer=2)
    run.receive(*"abcdefgh")
    assert run.skipped == []
    assert len(run.box.waiting) == 7


def test_rule_51_a_pause_stops_the_poll_and_keeps_the_cursor():
    run = trigger()
    run.table()
    run.receive("a")
    run.tell(c.Pause)
    assert [effect.address.attempt for effect in run.effects if isinstance(effect, fx.Stop)] == [3]
    assert (run.state_of(NODE), run.box.cursor) == ("waiting", "a")
    run.receive("b", attempt=3)
    assert run.box.cursor == "a"
    run.tell(c.Resume)
    assert run.polls == [4]
    run.receive("b")
    assert [start.item for start in run.started] == ["a", "b"]


def test_rule_51_a_stop_that_was_lost_is_derived_again():
    run = trigger()
    run.table()
    run.tell(c.Pause)
    found = [effect.address.attempt for effect in outstanding.outstanding(run.state) if isinstance(effect, fx.Stop)]
    assert found == [2]


def test_rule_51_a_failing_poll_is_retried_for_ever_at_most_every_five_minutes():
    run = trigger()
    run.table()
    waits = []
    for _ in range(14):
        run.fail(NODE, "source_failed", retryable=False)
        assert run.state_of(NODE) == "retrying"
        waits.append(run.get(NODE).retry_at - run.now)
        run.pass_time(waits[-1])
        assert run.state_of(NODE) == "queued"
    assert waits[0] < 2
    assert waits == sorted(waits)
    assert waits[-1] <= poll_stops.LONGEST_BACKOFF == 300
    run.receive("a")
    run.fail(NODE, "source_failed")
    assert run.get(NODE).retry_at - run.now < 2


def test_rule_51_a_poll_that_failed_after_a_long_time_is_tried_again_at_once():
    run = trigger()
    run.table()
    for _ in range(8):
        run.fail(NODE, "source_failed")
        run.pass_time(301)
    run.now += 1_000
    run.fail(NODE, "source_failed")
    assert run.get(NODE).retry_at - run.now < 2


def test_rule_51_a_poll_that_lapses_after_a_minute_is_no_crash():
    run = trigger()
    run.table()
    for _ in range(20):
        run.now += 61
        run.lapse(NODE)
        assert run.state_of(NODE) == "queued"
    for _ in range(5):
        run.lapse(NODE)
    assert (run.state_of(NODE), run.get(NODE).error.code) == ("parked", "poison")


def test_rule_51_crashes_are_counted_from_the_last_poll_that_came_back():
    run = trigger()
    run.table()
    for _ in range(4):
        run.lapse(NODE)
    run.receive("a")
    for _ in range(4):
        run.lapse(NODE)
    assert run.state_of(NODE) == "queued"


def test_rule_51_a_source_that_has_ended_is_not_asked_again():
    run = trigger()
    run.table()
    run.receive("a", end=True)
    assert (run.polls, run.state_of(NODE), run.box.ended) == ([], "waiting", True)
    run.tell(c.Rewind, cursor=None, reason="once more")
    assert run.polls == [3]


def test_rule_51_what_the_filter_leaves_out_is_a_fact():
    run = trigger()
    run.table()
    run.receive(cursor="5", filtered=5)
    (advanced,) = run.events("trigger.advanced")
    assert (advanced.reason, advanced.cursor, advanced.poll) == ("filtered", "5", 2)
    assert run.skipped == [("filter", 5)]


def test_rule_51_items_without_a_cursor_are_a_failure_of_the_source():
    run = trigger()
    run.table()
    run.receive("a")
    run.receive("b", cursor="a")
    assert (run.state_of(NODE), run.box.position) == ("retrying", 1)


def test_rule_51_a_rewind_reads_again_and_runs_nothing_twice():
    run = trigger()
    run.table()
    run.receive("a", "b", "c")
    run.tell(c.Rewind, cursor="a", reason="  ")
    assert run.refused.code == "reason_needed"
    run.tell(c.Rewind, cursor="a", reason="c was changed", by="ann")
    advanced = run.events("trigger.advanced")[-1]
    assert (advanced.after, advanced.cursor, advanced.note, advanced.by) == ("c", "a", "c was changed", "ann")
    run.receive("b", "c", "d", attempt=3, after="c")
    assert run.box.cursor == "a"
    run.receive("b", "c", "d")
    assert [start.item for start in run.started] == ["a", "b", "c", "d"]
    assert run.skipped == [("duplicate", 2)]


def test_rule_51_a_rewind_that_runs_again_does_so_up_to_the_last_item_and_no_further():
    run = trigger()
    run.table()
    run.receive("a", "b", "c")
    run.tell(c.Rewind, cursor="a", again=True, reason="lost")
    run.receive("b", "c", "d")
    assert [start.item for start in run.started] == ["a", "b", "c", "b", "c", "d"]
    assert len({start.run_id for start in run.started}) == 6
    run.tell(c.Rewind, cursor=None, reason="all")
    run.receive("a", "b", "c", "d", "e")
    assert [start.item for start in run.started][6:] == ["e"]


@pytest.mark.parametrize("state", ["queued", "retrying", "waiting"])
def test_rule_51_a_rewind_polls_at_once_whatever_the_poll_is(state):
    run = trigger()
    run.table(buffer=1, open=1)
    run.receive("a")
    if state == "retrying":
        run.fail(NODE, "source_failed")
    if state == "waiting":
        run.receive("b", "c", "d")
        run.tell(c.Pause)
    run.tell(c.Rewind, cursor=None, reason="again")
    assert run.state_of(NODE) == ("waiting" if state == "waiting" else "queued")
    assert run.box.cursor is None


def test_rule_51_what_is_polled_takes_no_deliveries_and_what_is_pushed_is_not_rewound():
    run = trigger()
    run.table()
    run.deliver("a")
    assert run.refused.code == "not_a_hook"
    hook = trigger()
    hook.webhook()
    hook.tell(c.Rewind, cursor=None, reason="x")
    assert hook.refused.code == "not_a_source"
    hook._command(c.Receive, NODE, (), None, items=(), after=None, cursor="x", revision=1)
    assert hook.box.cursor is None


def test_rule_51_deleting_a_trigger_waits_for_no_poll():
    run = trigger()
    run.table()
    run.tell(c.Cancel)
    assert run.status == "cancelled"
    assert [effect.address.attempt for effect in run.effects if isinstance(effect, fx.Stop)] == [2]


def test_rule_51_an_item_that_stops_the_trigger_stops_its_poll():
    run = trigger()
    run.table(on_poison="stop")
    items = (c.Delivered(id="a", error=Error("bad_template")),)
    fields = {"items": items, "after": None, "cursor": "a", "revision": 1}
    run._command(c.Receive, NODE, (), None, **fields)
    assert (run.status, run.state_of(NODE), run.polls) == ("paused", "waiting", [])


def test_rule_51_a_trigger_that_goes_on_as_a_new_run_polls_on_from_its_cursor(monkeypatch):
    monkeypatch.setattr(trigger_commands, "LONG_MAILBOX", 10)
    run = trigger()
    run.table(open=1)
    run.receive("a")
    while run.status == "running":
        run.receive(f"b{len(run.journal)}")
    (went,) = [effect for effect in run.effects if isinstance(effect, fx.ContinueRun)]
    after = trigger(went=went)
    assert (after.box.cursor, after.box.polled, after.polls) == (run.box.cursor, 0, [1])
    after.receive("z")
    assert after.box.cursor == "z"


def test_rule_51_a_rewind_to_the_start_begins_there_whatever_the_spec_says():
    run = trigger()
    run.table()
    run.receive("a")
    run.tell(c.Rewind, cursor="0", reason="a little")
    assert run.box.begins == ""
    run.tell(c.Rewind, cursor=None, reason="all")
    assert (run.box.cursor, run.box.begins) == (None, "start")


def test_rule_51_a_poll_that_nobody_takes_is_what_the_row_says():
    run = trigger()
    run.table()
    run.tell(c.HoldBack, address=run.state.address(run.get(NODE)), detail="nobody worked on queue 'triggers'")
    row = trigger_row(run.state)
    assert row is not None
    error = msgspec.json.decode(row.error or b"")
    assert (error["code"], error["message"][:12]) == ("no_worker", "nobody polls")
