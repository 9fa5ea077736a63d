"""Items that are put together, and how fast runs are started: rule 46, where it is about windows and rates."""

import pytest

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.triggers import trigger_commands, windows
from perdure.kernel.triggers.mailbox import Rate, Windowing, run_of_window
from perdure.kernel.values import Error
from tests.kernel.mailboxes import trigger

BATCH = Windowing(within=5.0, items=3)
QUIET = Windowing(within=60.0, quiet=10.0)


def hook(window: Windowing | None = BATCH, **policy):
    run = trigger()
    run.webhook(window=window, **policy)
    return run


def numbers(run):
    return [begun.numbers for event in run.events("trigger.started") for begun in event.starts]


def test_rule_46_items_of_one_key_start_one_run_when_there_are_enough():
    run = hook()
    run.deliver("a", "b", key="k")
    run.deliver("x", key="l")
    assert run.runs == []
    run.deliver("c", key="k")
    assert numbers(run) == [(1, 2, 4)]
    assert run.started[0].run_id == run_of_window("tr", ("a", "b", "c"))
    assert list(run.box.waiting) == [3]
    assert [len(window.numbers) for window in run.box.windows.values()] == [1]


def test_rule_46_a_window_closes_when_its_time_is_over():
    run = hook()
    run.deliver("a")
    run.now += 4
    run.deliver("b")
    assert [timer.due_at for timer in run.state.timers.values()] == [1_000_005.0]
    run.pass_time(1)
    assert numbers(run) == [(1, 2)]
    assert run.box.windows == run.box.newest == run.state.timers == {}
    run.deliver("c")
    assert [timer.due_at for timer in run.state.timers.values()] == [1_000_010.0]


def test_rule_46_what_comes_after_a_window_closed_is_in_another_also_if_no_timer_has_fired():
    run = hook()
    run.deliver("a")
    run.now += 6
    run.deliver("b")
    assert numbers(run) == [(1,)]
    assert list(run.box.waiting) == [2]


def test_rule_46_silence_closes_a_debounced_window_and_its_end_does_at_the_latest():
    run = hook(QUIET)
    run.deliver("a")
    for name in "bc":
        run.pass_time(9)
        run.deliver(name)
        assert run.runs == []
    run.pass_time(10)
    assert numbers(run) == [(1, 2, 3)]
    for step in range(7):
        run.deliver(f"d{step}")
        run.pass_time(9)
    assert len(numbers(run)) == 2
    assert len(numbers(run)[1]) == 7


def test_rule_46_where_only_the_last_is_kept_each_takes_the_place_of_the_one_before():
    run = hook(Windowing(within=60.0, quiet=10.0, keep="last", items=2))
    run.deliver("a", "b", key="k", inputs={"n": 1})
    for name in "cdef":
        run.pass_time(9)
        run.deliver(name, key="k", inputs={"n": name})
    assert run.skipped == [("superseded", (n,)) for n in range(1, 6)]
    run.pass_time(10)
    assert numbers(run) == [(6,)]
    assert run.started[0].run_id == run_of_window("tr", ("f",))


def test_rule_46_a_batch_of_one_delivery_fills_several_windows():
    run = hook()
    run.deliver(*"abcdefg")
    assert numbers(run) == [(1, 2, 3), (4, 5, 6)]
    assert list(run.box.newest.values()) == [7]


def test_rule_46_a_closed_window_waits_for_its_key_and_for_a_free_place():
    run = hook(per_key=1, open=10)
    run.deliver(*"abc", key="k")
    run.deliver(*"def", key="k")
    run.deliver("g", key="k")
    run.pass_time(10)
    assert numbers(run) == [(1, 2, 3)]
    run.end(run.started[0].run_id)
    assert numbers(run) == [(1, 2, 3), (4, 5, 6)]
    run.end(run.started[1].run_id)
    assert numbers(run)[2:] == [(7,)]


def test_rule_46_one_window_more_than_may_be_closes_the_oldest(monkeypatch):
    monkeypatch.setattr(windows, "MOST_WINDOWS", 2)
    monkeypatch.setattr("perdure.invariants.mailboxes.MOST_WINDOWS", 2)
    run = hook()
    for key in "klm":
        run.deliver(key, key=key)
    assert numbers(run) == [(1,)]
    assert len(run.box.windows) == 2


def test_rule_46_windows_are_decided_by_the_policy_of_now():
    run = hook()
    run.deliver("a", "b")
    run.webhook(window=Windowing(within=5.0, items=2))
    assert numbers(run) == [(1, 2)]
    run.deliver("c")
    run.webhook()
    assert numbers(run) == [(1, 2), (3,)]


def test_rule_46_a_run_by_hand_is_in_no_window():
    run = hook()
    run.fire("x")
    assert numbers(run) == [(1,)]
    assert run.started[0].run_id.startswith("tr~m")


def test_rule_46_a_paused_window_closes_when_the_pause_is_over():
    run = hook()
    run.deliver("a")
    run.tell(c.Pause)
    run.pass_time(20)
    assert numbers(run) == []
    run.tell(c.Resume)
    assert numbers(run) == [(1,)]


def test_rule_46_a_window_goes_along_when_the_trigger_goes_on_as_a_new_run(monkeypatch):
    run = hook()
    run.deliver("a", "b")
    monkeypatch.setattr(trigger_commands, "LONG_MAILBOX", 5)
    run.deliver("x", key="other")
    (went,) = [effect for effect in run.effects if isinstance(effect, fx.ContinueRun)]
    monkeypatch.setattr(trigger_commands, "LONG_MAILBOX", 200_000)
    after = trigger(now=run.now, went=went)
    after.deliver("c")
    assert numbers(after) == [(1, 2, 4)]
    after.pass_time(5)
    assert numbers(after) == [(1, 2, 4), (3,)]


def test_rule_48_what_waits_in_a_window_stops_no_run_and_is_not_left_out():
    for overlap in ("skip", "buffer_one", "cancel", "terminate"):
        run = hook(overlap=overlap, open=1)
        run.deliver(*"abcdef")
        assert numbers(run) == [(1, 2, 3)]
        assert run.stops == []
        assert run.skipped == []
        run.end(run.started[0].run_id)
        assert numbers(run) == [(1, 2, 3), (4, 5, 6)]


def test_rule_50_a_window_that_can_start_no_run_is_parked_whole_and_each_item_starts_alone_later():
    run = hook()
    run.deliver("a", "b", inputs={"n": 1})
    run.deliver("c", inputs={"bad": True})
    assert list(run.box.parked) == [1, 2, 3]
    assert run.box.windows == {}
    for number in (1, 2):
        run.tell(c.Settle, number=number, revision=1, inputs={"n": number})
    assert numbers(run) == [(1,), (2,)]
    assert [start.run_id for start in run.started] == [run_of_window("tr", (name,)) for name in "ab"]


def test_rule_50_an_item_that_cannot_be_mapped_is_in_no_window():
    run = hook()
    run.deliver("a", error=Error("bad_template"))
    run.deliver("b", "c")
    run.deliver("e")
    assert numbers(run) == [(2, 3, 4)]


def test_rule_45_one_key_may_hold_a_whole_window():
    run = hook(Windowing(within=5.0, items=8), buffer=10, per_key=1)
    for name in "abcdefg":
        assert isinstance(run.deliver(name, key="k"), c.Ruling)


# -- rates -------------------------------------------------------------------------------------------------------------


def test_rule_46_no_more_runs_start_than_the_rate_allows():
    run = hook(None, rate=Rate(2, 10.0))
    run.deliver(*"abcde")
    assert len(run.started) == 2
    run.pass_time(5.01)
    assert len(run.started) == 3
    run.pass_time(5.01)
    assert len(run.started) == 4
    run.pass_time(5.01)
    assert len(run.started) == 5
    assert run.state.timers == {}
    run.pass_time(100)
    run.deliver(*"fghi")
    assert len(run.started) == 7


def test_rule_46_the_rate_is_kept_by_runs_that_overlap_and_by_hand():
    run = trigger()
    run.schedule(overlap="allow", rate=Rate(1, 1000.0))
    run.fire("x")
    run.pass_time(60)
    assert len(run.started) == 1
    run.pass_time(1000)
    assert len(run.started) == 2


@pytest.mark.parametrize("back", [0.0, 3600.0])
def test_rule_46_a_clock_that_is_set_back_stops_no_rate(back):
    run = hook(None, rate=Rate(1, 10.0))
    run.deliver("a")
    run.now -= back
    run.deliver("b")
    run.now += 10.01
    run.deliver("c")
    run.now += back
    run.deliver("d")
    assert len(run.started) >= 2


def test_rule_46_the_timer_of_a_schedule_is_the_earlier_of_its_moment_and_its_rate():
    run = trigger()
    run.schedule(600.0, overlap="buffer", open=10, rate=Rate(1, 30.0))
    moment = next(iter(run.state.timers.values())).due_at
    run.fire("x")
    run.fire("y")
    (timer,) = run.state.timers.values()
    assert run.now + 30 < timer.due_at < run.now + 31
    run.pass_time(31)
    assert len(run.started) == 2
    assert [timer.due_at for timer in run.state.timers.values()] == [moment]


def test_rule_46_what_was_parked_comes_back_behind_the_window_of_its_key_that_is_open():
    run = hook(QUIET)
    run.deliver("a", key="k")
    run.deliver("b", error=Error("bad_template", "no such field"))
    run.tell(c.Settle, number=2, as_="again", key="k", revision=1)
    assert numbers(run) == []
    run.pass_time(10)
    assert numbers(run) == [(1,), (2,)]
