"""The kernel and the real calendar together."""

from typing import Any

import msgspec
import pytest

from perdure.kernel import commands as c
from perdure.kernel.triggers.mailbox import Policy
from perdure.runtime.coordinator.triggers.schedules import answer_moments, policy_of, spec_of
from perdure.triggers.declarations import read_data
from tests.kernel.mailboxes import TriggerRun
from tests.triggers.scan import instant

DAY = 86_400


def make(**trigger):
    return read_data({"name": "nightly", "workflow": "report", **trigger}, 0).get_triggers()[0]


def answer(question):
    verdict = answer_moments(question.evidence)
    return verdict.error or verdict.value


def started(trigger, now) -> Any:
    run: Any = TriggerRun(now=float(now))
    run.answers["moments"] = answer
    run.tell(c.Register, name=trigger.name, kind=trigger.kind, spec=spec_of(trigger), policy=policy_of(trigger))
    return run


def test_a_schedule_starts_runs_at_its_moments_over_a_change_of_the_clock():
    run = started(
        make(schedule={"cron": "30 2 * * *", "timezone": "Europe/Berlin"}, overlap="allow"), instant("2026-03-28")
    )
    run.pass_time(3 * DAY)
    expected = [instant("2026-03-28T01:30:00"), instant("2026-03-29T01:00:00"), instant("2026-03-30T00:30:00")]
    assert run.runs == [f"t{at}" for at in expected]


def test_a_missed_night_is_made_up_for_once():
    run = started(make(schedule={"cron": "0 * * * *"}), instant("2026-01-01"))
    run.now += 5 * 3600 + 10
    run.pass_time(0)
    assert run.runs == [f"t{instant('2026-01-01T05:00:00')}"]
    assert run.skipped == [("superseded", 4)]


def test_jitter_delays_the_start_and_not_the_moment():
    run = started(make(schedule={"every": "1h", "jitter": "10m"}, overlap="allow"), instant("2026-01-01"))
    due = run.state.timers["trigger:receive"].due_at
    assert instant("2026-01-01T01:00:00") < due < instant("2026-01-01T01:10:00")
    run.pass_time(due - run.now - 1)
    assert run.runs == []
    run.pass_time(2)
    assert run.runs == [f"t{instant('2026-01-01T01:00:00')}"]


def test_a_schedule_that_has_ended_is_refused_and_one_that_nobody_understands_too():
    run = started(make(schedule={"at": "2020-01-01"}), instant("2026-01-01"))
    assert run.refused.code == "no_more_moments"
    bad = msgspec.structs.replace(make(schedule={"every": 5}).source, timezone="Mars/Base")
    run = started(msgspec.structs.replace(make(schedule={"every": 5}), source=bad), 0)
    assert run.refused.code == "bad_schedule"
    assert "Mars/Base" in run.refused.message


def ask(trigger, **fields) -> Any:
    return answer_moments(c.MomentsAsked(trigger="t", spec=spec_of(trigger), **fields))


def test_times_are_those_of_journals():
    """A whole number is another value than the one that is folded from a journal."""
    page = ask(make(schedule={"every": 10}), since=0, until=35, most=2).value
    assert {type(value) for moment in page["moments"] for value in moment} == {float}


@pytest.mark.slow
@pytest.mark.parametrize("lines", [10, 25])
def test_a_schedule_whose_moments_lie_decades_apart_gets_on(lines, monkeypatch):
    """Each line costs a look a quarter of its budget, from the same cursor each time: it must not end at the same line for ever."""
    rare = [f"{number % 60} {number // 60} * 2 MON#5" for number in range(lines)]
    trigger = make(schedule={"cron": rare})
    monkeypatch.setattr("perdure.triggers.cron._far", {})  # as in a process that has not checked it
    run = started(trigger, instant("2030-01-01") + 0.5)
    assert run.refused is None
    due = [run.state.timers["trigger:receive"].due_at]
    while due[-1] <= run.now and len(due) < lines:
        run.do(c.FireTimer(at=run.now, timer="trigger:receive"))
        due.append(run.state.timers["trigger:receive"].due_at)
    assert due[-1] == instant("2044-02-29")
    assert len(due) < lines / 2


def test_a_backfill_asks_for_moments_whether_they_are_due_or_not():
    trigger = make(schedule={"every": 100, "jitter": 90})
    by_moment = ask(trigger, since=0, until=300, most=10, nominal=True).value
    assert [moment[0] for moment in by_moment["moments"]] == [100, 200, 300]
    by_due = ask(trigger, since=0, until=300, most=10).value
    assert [moment[0] for moment in by_due["moments"]] == [100, 200]


def test_no_schedule_and_no_trigger_are_errors():
    assert ask(make(event={"name": "x"}), since=0, until=0, most=1).error.code == "bad_schedule"
    line = msgspec.structs.replace(make(schedule={"every": 5}).source, every=0, cron=("no line",))
    unread = spec_of(msgspec.structs.replace(make(schedule={"every": 5}), source=line))
    for spec in (None, 5, {}, {"every": 60}, unread):
        asked = c.MomentsAsked(trigger="t", spec=spec, since=0, until=0, most=1)
        found: Any = answer_moments(asked)
        assert found.error.code == "bad_schedule"


def test_a_policy_has_what_the_trigger_says():
    hook = make(
        webhook={"verify": {"scheme": "none"}},
        key="{{ item.k }}",
        limits={"open": 7, "per_key": 2, "buffer": 5},
        on_poison="stop",
        pause_after_failures=3,
    )
    assert policy_of(hook) == Policy("report", "buffer", 7, 2, 5, on_poison="stop", pause_after_failures=3)
    nightly = make(schedule={"every": 5, "max_firings": 9}, catchup={"mode": "all", "within": "2h"})
    assert policy_of(nightly) == Policy("report", "skip", 1, 0, catchup="all", within=7200.0, max_firings=9)
