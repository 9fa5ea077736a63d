"""When a schedule fires, and what becomes of what it missed: rules 55 to 60."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from perdure.kernel import commands as c
from perdure.kernel.needs import MomentsAsked
from perdure.kernel.triggers import trigger_commands
from perdure.runtime.coordinator.triggers.schedules import answer_moments
from perdure.service.triggers.coming_moments import get_schedule, read_moments
from perdure.service.triggers.shown_triggers import item_views
from perdure.triggers.declarations import read_data
from tests.kernel.mailboxes import answer_target, trigger


def test_rule_55_nothing_of_the_past_runs():
    run = trigger()
    run.schedule()
    assert (run.box.cursor, run.runs) == (run.now, [])
    assert run.state.timers["trigger:receive"].due_at == 1_000_020.0


def test_rule_55_a_schedule_without_a_moment_to_come_is_refused():
    run = trigger()
    run.schedule(spec={"stop": 5.0})
    assert run.refused.code == "no_more_moments"
    run.schedule(spec={"bad": True})
    assert run.refused.code == "bad_schedule"
    assert run.state.triggers == {}


def test_rule_55_an_item_whose_run_is_open_says_its_moment_and_when_it_came():
    run = trigger()
    run.schedule(overlap="skip")
    run.pass_time(21)
    run.pass_time(5)
    (item,) = item_views(run.box)
    assert (item["state"], item["moment"], item["at"]) == ("open", 1_000_020.0, 1_000_020.0)


def test_rule_55_what_is_due_in_a_pause_does_not_run_when_it_is_over():
    run = trigger()
    run.schedule()
    run.tell(c.Pause)
    run.pass_time(200)
    run.tell(c.Resume)
    assert run.runs == []
    assert [event.reason for event in run.events("trigger.skipped")] == ["paused"] * 4
    assert sum(event.count for event in run.events("trigger.skipped")) == 4
    run.pass_time(60)
    assert run.runs == ["t1000260"]


def test_rule_55_what_is_due_before_the_pause_is_not_lost_to_it():
    run = trigger()
    run.schedule()
    run.now += 30  # the timer is due, and nobody has said so yet
    run.tell(c.Pause)
    assert run.runs == ["t1000020"]
    run.pass_time(60)
    assert run.skipped == [("paused", 1)]


def test_rule_55_what_is_due_in_a_pause_is_skipped_when_it_ends_though_no_timer_said_so():
    run = trigger()
    run.schedule()
    run.tell(c.Pause)
    run.now += 90
    run.tell(c.Resume)
    assert (run.runs, run.skipped) == ([], [("paused", 2)])
    run.pass_time(60)
    assert run.runs == ["t1000140"]


def late(seconds: float, **policy: Any) -> Any:
    run = trigger()
    run.schedule(**policy)
    run.now += seconds
    run.do(c.FireTimer(at=run.now, timer="trigger:receive"))
    return run


def test_rule_56_latest_runs_the_last_that_was_missed():
    run = late(200)
    assert run.runs == ["t1000200"]
    (event,) = run.events("trigger.skipped")
    assert (event.reason, event.count, event.since, event.until) == ("superseded", 3, 1_000_020.0, 1_000_140.0)
    assert run.box.cursor == 1_000_200.0


def test_rule_56_all_runs_each_in_order():
    run = late(200, catchup="all", overlap="buffer", open=10)
    assert run.runs == ["t1000020", "t1000080", "t1000140", "t1000200"]


def test_rule_56_none_runs_only_what_is_hardly_late():
    assert late(21, catchup="none").runs == ["t1000020"]
    run = trigger()
    run.schedule(3600.0, catchup="none")
    run.now = 1_003_000.0
    run.do(c.FireTimer(at=run.now, timer="trigger:receive"))
    assert (run.runs, run.skipped) == ([], [("catchup", 1)])
    assert run.state.timers["trigger:receive"].due_at == 1_004_400.0


def test_rule_56_what_is_older_than_within_is_not_made_up_for():
    run = late(300, catchup="all", overlap="buffer", open=10, within=100.0)
    assert run.runs == ["t1000200", "t1000260"]
    assert run.skipped == [("catchup", 3)]


def test_rule_56_pages_before_the_last_only_supersede(monkeypatch):
    monkeypatch.setattr(trigger_commands, "PAGE", 2)
    run = late(300)
    assert run.runs == []
    run.pass_time(0)
    assert run.runs == ["t1000260"]
    assert [count for _, count in run.skipped] == [2, 2]


def test_rule_56_moments_are_found_from_the_cursor_and_never_from_now():
    run = late(21)
    run.end(*run.box.open)
    run.now += 600
    run.do(c.FireTimer(at=run.now, timer="trigger:receive"))
    assert run.box.cursor == 1_000_620.0
    assert sum(count for _, count in run.skipped) == 9


def test_rule_56_a_change_decides_first_what_was_due_by_the_old_spec():
    run = trigger()
    run.schedule()
    run.now += 30
    run.schedule(7.0)
    assert run.runs == ["t1000020"]
    assert (run.box.revision, run.box.cursor) == (2, run.now)
    assert run.state.timers["trigger:receive"].due_at == 1_000_034.0


def test_rule_56_a_schedule_that_cannot_be_read_any_more_pauses():
    run = trigger()
    run.schedule()
    run.box.spec["bad"] = True
    run.restored = None
    run.now += 30
    run.replay_each_step = False
    run.do(c.FireTimer(at=run.now, timer="trigger:receive"))
    assert (run.status, run.state.pauses) == ("paused", {"bad_schedule": "trigger"})


def test_rule_57_the_interval_of_a_moment_is_from_the_one_before():
    run = late(21)
    (event,) = run.events("trigger.received")
    (item,) = event.items
    assert (item.previous, item.nominal, item.next) == (999_960.0, 1_000_020.0, 1_000_080.0)


def test_rule_57_a_moment_knows_the_latest_whose_run_has_completed():
    run, known = trigger(), {}

    def answer(question: c.Question) -> Any:
        known[question.evidence.item.nominal] = question.evidence.last_success
        return answer_target(question)

    run.answers["target"] = answer
    run.schedule(overlap="buffer", open=2)
    run.pass_time(21)
    run.pass_time(60)
    first, second = (start.run_id for start in run.started)
    run.end(second)
    run.end(first)  # a later moment has succeeded before
    run.pass_time(60)
    (third,) = run.box.open
    run.end(third, state="failed")
    run.pass_time(60)
    assert list(known.values()) == [None, None, 1_000_080.0, 1_000_080.0]
    assert run.box.succeeded == 1_000_080.0


def test_rule_57_what_is_fired_by_hand_is_no_moment_that_has_succeeded():
    run = trigger()
    run.schedule()
    run.fire("a")
    run.end(*run.box.open)
    assert run.box.succeeded is None


def test_rule_56_what_was_left_out_is_counted_by_reason():
    run = late(60 * 5, overlap="skip", catchup="latest")
    run.pass_time(60)
    assert run.box.skipped == {"superseded": 4, "overlap": 1}


def test_rule_57_jitter_moves_the_start_and_not_the_moment():
    run = trigger()
    run.schedule(spec={"jitter": 7.0})
    run.pass_time(26)
    assert run.runs == []
    run.pass_time(1)
    assert run.runs == ["t1000020"]


def test_rule_58_a_backfill_goes_on_beside_the_schedule():
    run = trigger()
    run.schedule()
    run.tell(c.Backfill, since=999_000.0, until=999_180.0)
    assert run.runs == ["t999060"]
    first = run.started[0].run_id
    run.pass_time(20)
    assert run.runs == ["t999060", "t1000020"]
    run.end(first)
    assert run.runs == ["t999060", "t1000020", "t999120"]


def test_rule_58_a_backfill_does_not_repeat_what_ran_unless_asked():
    run = late(21)
    run.end(*run.box.open)
    run.tell(c.Backfill, since=1_000_000.0, until=1_000_021.0)
    assert run.runs == ["t1000020"]
    assert run.skipped == [("duplicate", 1)]
    run.tell(c.Backfill, since=1_000_000.0, until=1_000_021.0, again=True)
    assert run.runs == ["t1000020", "t1000020.1"]


def test_rule_58_live_and_backfill_do_not_both_start_a_moment():
    run = trigger()
    run.schedule()
    run.now += 30
    run.tell(c.Backfill, since=1_000_000.0, until=1_000_025.0)
    run.do(c.FireTimer(at=run.now, timer="trigger:receive"))
    assert run.runs == ["t1000020"]
    assert run.skipped == [("duplicate", 1)]


def test_rule_58_pages_of_a_backfill_follow_each_other(monkeypatch):
    monkeypatch.setattr("perdure.kernel.triggers.hand_out.LANE_PAGE", 2)
    run = trigger()
    run.schedule()
    run.tell(c.Backfill, since=999_000.0, until=999_300.0, open=100)
    while "trigger:receive" in run.state.timers and run.state.timers["trigger:receive"].due_at <= run.now:
        run.pass_time(0)
    assert run.runs == ["t999060", "t999120", "t999180", "t999240", "t999300"]
    assert run.box.lanes[1].cursor == 999_300.0
    assert run.state.timers["trigger:receive"].due_at == 1_000_020.0


def test_rule_50_one_decision_parks_a_portion_and_the_next_ones_the_rest():
    """Each moment of a backfill may start when the one before it is done with, so each is a question and a decision begun anew."""
    run = trigger()
    run.schedule(workflow="")
    run.tell(c.Backfill, since=993_960.0, until=999_960.0)
    parked = [len(run.box.parked)]
    while run.state.timers["trigger:receive"].due_at <= run.now:
        run.do(c.FireTimer(at=run.now, timer="trigger:receive"))
        parked.append(len(run.box.parked))
    assert parked == [20, 40, 60, 80, 100]
    assert (len(run.box.parked), len(run.box.waiting), run.runs) == (100, 0, [])
    assert run.box.lanes[1].cursor == 999_960.0


def test_rule_58_a_paused_trigger_asks_for_no_page():
    run = trigger()
    run.schedule()
    run.tell(c.Pause)
    run.tell(c.Backfill, since=999_000.0, until=999_300.0)
    assert run.events("trigger.received") == []
    run.tell(c.Resume)
    assert len(run.runs) == 1


def test_rule_58_a_backfill_is_about_the_past():
    run = trigger()
    run.schedule()
    run.tell(c.Backfill, since=run.now, until=run.now + 60)
    assert run.refused.code == "bad_range"
    run.tell(c.Backfill, since=run.now, until=run.now - 60)
    assert run.refused.code == "bad_range"


def test_rule_59_so_many_firings_and_no_more():
    run = trigger()
    run.schedule(max_firings=2, overlap="allow")
    run.pass_time(300)
    assert run.runs == ["t1000020", "t1000080"]
    assert run.state.timers == {}
    assert run.status == "running"
    run.tell(c.Backfill, since=999_000.0, until=999_100.0)
    assert len(run.runs) == 3


def test_rule_59_after_the_last_moment_no_timer_is_set():
    run = trigger()
    run.schedule(spec={"stop": 1_000_050.0})
    run.pass_time(300)
    assert (run.runs, run.state.timers) == (["t1000020"], {})


def test_rule_59_failures_in_a_row_pause_the_trigger():
    run = trigger()
    run.schedule(pause_after_failures=2)
    for state in ("failed", "completed", "failed", "failed"):
        run.pass_time(60)
        assert run.status == "running"
        run.end(*run.box.open, state=state)
    assert (run.status, run.state.pauses) == ("paused", {"failures": "trigger"})


@pytest.mark.parametrize(
    ("catchup", "within", "made"),
    [("latest", 86_400.0, [5]), ("all", 86_400.0, [1, 2, 3, 4, 5]), ("all", 100.0, [4, 5]), ("none", 0.0, [5])],
)
def test_rule_55_resuming_makes_up_for_a_pause_only_if_asked_to_and_then_as_for_what_was_missed(catchup, within, made):
    for asked in (False, True):
        run = trigger(now=1_000_020.0)  # moments are at …020, …080 and so on
        run.schedule(60.0, catchup=catchup, within=within, overlap="buffer", open=10)
        run.tell(c.Pause)
        for _ in range(2):  # some pass while its timer is looked after, others while nobody is there
            run.pass_time(60)
        run.now += 180
        run.tell(c.Resume, catch_up=asked)
        run.pass_time(0.5)
        moments = [round((float(start.item) - 1_000_020) / 60) for start in run.started]
        assert moments == (made if asked else [])
        run.tell(c.Pause)
        run.tell(c.Resume, catch_up=True)
        assert len(run.started) == len(made) * asked
        run.started.clear()
        run.pass_time(60)
        assert [round((float(start.item) - 1_000_020) / 60) for start in run.started] == [6]


@pytest.mark.slow
async def test_rule_60_the_moments_that_are_shown_are_those_that_fire():
    schedule = {"cron": "30 1,2 * * *", "timezone": "Europe/Berlin", "jitter": "10m"}
    [found] = read_data({"name": "nightly", "workflow": "report", "schedule": schedule}, 0.0).triggers
    since = 1_790_000_000.0  # before the clocks of Berlin are put back
    asked = MomentsAsked(trigger="t", spec=msgspec.to_builtins(found), since=since, until=float("inf"), most=200)
    fires = [(nominal, float(due)) for nominal, due, *_ in answer_moments(asked).value["moments"]]
    tenancy: Any = SimpleNamespace(tenant="default", engine=SimpleNamespace(clock=SimpleNamespace(now=lambda: since)))
    row: Any = SimpleNamespace(name=found.name)
    shown = await read_moments(tenancy, row, get_schedule(found, found.name), None, 200)
    assert [(one["moment"], one["due"]) for one in shown] == fires
    assert len(fires) == 200
    assert any(nominal != due for nominal, due in fires)
