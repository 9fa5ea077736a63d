"""Moments of schedules, against a scan of every minute."""

from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.budget import Budget
from perdure.model.trigger_sources import Schedule
from perdure.triggers.calendar import BadSchedule, check_schedule, compile_schedule, moments
from perdure.triggers.cron import BadLine, parse_line
from perdure.triggers.zones import UnknownZone, get_zone
from tests.triggers.scan import Line, find_changes, instant, judge, scan

DAY = 86_400
LINES = """
* * * * *|*/5 * * * *|*/7 * * * *|*/30 * * * *|1-59/2 * * * *|0 * * * *|15 * * * *|30 * * * *|30,45 * * * *|59 * * * *
0 */2 * * *|30 */2 * * *|0 */3 * * *|15 */6 * * *|*/10 2 * * *|*/10 0 * * *|*/20 1-3 * * *|* 2 * * *|* 23 * * *|* */4 * * 0
0 0 * * *|30 0 * * *|0 1 * * *|30 1 * * *|59 1 * * *|0 2 * * *|5 2 * * *|30 2 * * *|0 3 * * *|45 23 * * *
0,30 0-23 * * *|0-59/15 1-3 * * *|0 2 * * 0|0 2 * * SUN|30 2 * * 1-5|30 0 30 12 *|0 9 30 * *|0 9 1 * 5|30 1,2,3 */2 * *|0 12 * APR,OCT,NOV *
"""
CRONS = [line for row in LINES.split("\n") for line in row.split("|") if line]
ZONES = {
    "Europe/Berlin": "2026",
    "America/New_York": "2026",
    "America/Havana": "2026",  # at midnight
    "Australia/Lord_Howe": "2026",  # half an hour
    "Pacific/Apia": "2011",  # and a day that does not exist
    "America/St_Johns": "2010",  # a minute past midnight
    "Asia/Beirut": "2021",  # at midnight, back into the day before
    "Antarctica/Casey": "2018",  # three hours
}


def nominals(schedule, since, until):
    found = moments(schedule, since, until)
    assert found.next.nominal > until if found.next else found.done or found.looked >= until
    return [moment.nominal for moment in found.moments]


def changes_of(zone):
    year = int(ZONES[zone])
    return find_changes(zone, instant(f"{year}-01-01"), instant(f"{year + 1}-01-02"))


@pytest.mark.slow
def test_there_are_forty_lines_and_eight_zones_with_two_changes_each():
    assert len(set(CRONS)) == 40
    assert [zone for zone in ZONES if len(changes_of(zone)) < 2] == []


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
def test_a_line_has_the_moments_that_a_scan_of_every_minute_finds(zone):
    for change in changes_of(zone)[:4]:
        start, end = change - 5 * 3600, change + 14 * 3600
        minutes = scan(zone, start - DAY, end + DAY)
        for line in CRONS:
            expected = [at for at in judge(line, minutes) if start < at <= end]
            assert nominals(Schedule(cron=(line,), timezone=zone), start, end) == expected, (line, zone, change)


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
def test_from_any_start_around_a_change_the_next_moment_is_later_and_the_one_before_is_not(zone):
    """Inside a repeated hour a library gave moments in the past (M5)."""
    for change in changes_of(zone)[:2]:
        minutes = scan(zone, change - 3 * DAY, change + 3 * DAY)
        for line in CRONS[2::5]:
            every = judge(line, minutes)
            schedule = Schedule(cron=(line,), timezone=zone)
            for start in range(change - 3 * 3600, change + 4 * 3600, 41 * 60):
                found = moments(schedule, start, start).next
                later = [at for at in every if at > start][:2]
                if not later:  # a line of one day in the year
                    assert found is None or found.nominal > minutes[-1][0]
                    continue
                assert found is not None
                assert found.nominal == later[0], (line, start)
                assert found.next is None or len(later) < 2 or found.next == later[1]
                before = [at for at in every if at <= start][-1:]
                assert [found.previous] == before or (not before and found.previous < minutes[0][0]), (line, start)


@pytest.mark.parametrize(
    ("zone", "line", "day", "expected"),
    [
        ("Europe/Berlin", "30 2 * * *", "2026-03-29", ["03:00+02:00 02:30 does not exist, 03:00"]),
        ("Europe/Berlin", "30 2 * * *", "2026-10-25", ["02:30+02:00 02:30 comes twice, the first"]),
        ("Europe/Berlin", "0 */2 * * *", "2026-03-29", ["00:00+01:00 ", "04:00+02:00 "]),
        (
            "Europe/Berlin",
            "0 */2 * * *",
            "2026-10-25",
            ["00:00+02:00 ", "02:00+02:00 ", "02:00+01:00 02:00 for the second time", "04:00+01:00 "],
        ),
        ("Australia/Lord_Howe", "0 */2 * * *", "2026-04-05", ["00:00+11:00 ", "02:00+10:30 ", "04:00+10:30 "]),
        ("Australia/Lord_Howe", "30 * * * *", "2026-10-04", ["00:30+10:30 ", "01:30+10:30 ", "02:30+11:00 "]),
        ("America/Havana", "30 0 * * *", "2026-03-08", ["01:00-04:00 00:30 does not exist, 01:00"]),
        ("Pacific/Apia", "0 9 * * *", "2011-12-31", ["00:00+14:00 09:00 does not exist, 00:00", "09:00+14:00 "]),
    ],
)
def test_a_change_of_the_clock_is_said(zone, line, day, expected):
    there = ZoneInfo(zone)
    midnight = int(datetime.fromisoformat(day).replace(tzinfo=there).timestamp())
    found = moments(Schedule(cron=(line,), timezone=zone), midnight - 1, midnight + DAY).moments
    said = [_say(one, there) for one in found]
    assert said[: len(expected)] == expected


def _say(moment, there):
    shown = datetime.fromtimestamp(moment.nominal, there).isoformat(timespec="minutes")
    return f"{shown[11:]} {moment.note}"


def test_29_february_comes_every_four_years_and_not_in_2100():
    found = nominals(Schedule(cron=("0 0 29 2 *",)), instant("2090-01-01"), instant("2108-01-01"))
    assert found == [instant("2092-02-29"), instant("2096-02-29"), instant("2104-02-29")]
    mondays = nominals(Schedule(cron=("0 0 * 2 MON#5",)), instant("2020-01-01"), instant("2060-01-01"))
    assert mondays == [instant("2044-02-29")]


def test_a_line_that_never_matches_has_no_more_moments_and_costs_little():
    budget = Budget()  # the smallest there is
    found = moments(Schedule(cron=("0 0 */30 2 MON#5",)), 0, 1e12, budget=budget)
    assert (found.moments, found.next, found.done) == ((), None, True)
    with pytest.raises(BadSchedule, match="no moment at all"):
        check_schedule(Schedule(cron=("0 0 */30 2 MON#5",)), 0)


@pytest.mark.slow
def test_what_is_left_out_for_ever_ends_with_the_budget_and_goes_on_from_there():
    every_minute = tuple(f"{minute} * * * *" for minute in range(60))
    schedule = Schedule(cron=("* * * * *",), except_cron=every_minute)
    first = moments(schedule, 1000, 1e12, budget=Budget())
    assert (first.moments, first.next, first.done) == ((), None, False)
    assert first.looked > 1000
    second = moments(schedule, first.looked, 1e12, budget=Budget())
    assert second.looked > first.looked
    with pytest.raises(BadSchedule, match="within reasonable work"):
        check_schedule(schedule, 0, Budget())


@pytest.mark.slow
def test_a_moment_before_a_long_pause_does_not_wait_for_the_next_one():
    """Its successor is not found within the budget, look after look; it is due nevertheless."""
    all_but_one = ("1-59 * * * *", "0 1-23 * * *", "0 0 2-31 * *", "0 0 1 2-12 *")
    schedule = Schedule(cron=("* * * * *",), except_cron=all_but_one, timezone="UTC", jitter=30)
    found = moments(schedule, instant("2026-12-31T23:58:00"), instant("2027-02-01"), budget=Budget(5_000))
    assert [(moment.nominal, moment.previous, moment.next) for moment in found.moments] == [
        (instant("2027-01-01"), None, None)
    ]
    assert (found.next, found.done, found.looked) == (None, False, instant("2027-01-01"))


@pytest.mark.slow
def test_moments_are_found_by_pages_as_all_at_once():
    schedule = Schedule(cron=("*/7 * * * *", "30 2 * * *"), timezone="Europe/Berlin", jitter=300)
    start, end = instant("2026-10-24"), instant("2026-10-26")
    whole = moments(schedule, start, end, trigger="t", budget=Budget.without_end())
    paged: list = []
    since = start
    while page := moments(schedule, since, end, 13, trigger="t").moments:
        paged += page
        since = page[-1].nominal
    assert tuple(paged) == whole.moments
    short = moments(schedule, start, end, trigger="t", budget=Budget(20_000))
    assert 0 < len(short.moments) < len(whole.moments)
    assert short.moments == whole.moments[: len(short.moments)]


def test_each_moment_knows_the_one_before_and_the_one_after():
    found = moments(
        Schedule(cron=("0 9 * * 1-5",), timezone="Europe/Oslo"), instant("2026-11-13"), instant("2026-11-18")
    )
    every = [one.nominal for one in found.moments]
    assert [one.previous for one in found.moments] == [every[0] - DAY, *every[:-1]]
    assert found.next is not None
    assert [one.next for one in found.moments] == [*every[1:], found.next.nominal]


def test_a_clock_set_back_gives_nothing_and_changes_nothing():
    schedule = Schedule(cron=("*/10 * * * *",))
    noon = instant("2026-05-01T12:00:00")
    after = moments(schedule, noon, noon - 3600)
    assert after.moments == ()
    assert after.next is not None
    assert after.next.nominal == noon + 600


def test_every_is_counted_from_1970_so_that_a_restart_does_not_shift_it():
    schedule = Schedule(every=900, offset=300)
    assert nominals(schedule, 1_000_000_123, 1_000_003_000) == [
        1_000_000_200,
        1_000_001_100,
        1_000_002_000,
        1_000_002_900,
    ]
    assert nominals(schedule, 1_000_000_199, 1_000_003_000) == [
        1_000_000_200,
        1_000_001_100,
        1_000_002_000,
        1_000_002_900,
    ]
    first = moments(schedule, -5, 0).next
    assert first is not None
    assert (first.nominal, first.previous) == (300, None)


def test_listed_times_are_local_or_have_an_offset_and_end():
    at = ("2026-12-24T18:00", "2026-12-24T17:00Z", "2026-03-29T02:30", "2027-01-01")
    found = moments(Schedule(at=at, timezone="Europe/Oslo"), 0, 1e10)
    assert [one.nominal for one in found.moments] == [
        *(instant("2026-03-29T01:00:00"), instant("2026-12-24T17:00:00"), instant("2026-12-31T23:00:00"))
    ]
    assert found.moments[0].note == "02:30 does not exist, 03:00"
    assert found.done


def test_from_and_until_bound_it():
    schedule = Schedule(cron=("0 12 * * *",), timezone="UTC", from_="2026-01-03", until="2026-01-05T12:00")
    found = moments(schedule, 0, 1e10)
    assert [one.nominal for one in found.moments] == [instant("2026-01-03T12:00:00"), instant("2026-01-04T12:00:00")]
    assert found.done
    assert (found.moments[0].previous, found.moments[-1].next) == (None, None)
    with pytest.raises(BadSchedule, match="until"):
        compile_schedule(Schedule(every=5, from_="2026-01-02", until="2026-01-01"))


def excepted(days, lines, minutes):
    crons = [Line(line) for line in lines]
    return {at for at, wall in minutes if str(wall.date()) in days or any(one.matches(wall) for one in crons)}


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
def test_what_is_left_out_is_what_a_scan_leaves_out(zone):
    change = changes_of(zone)[0]
    minutes = scan(zone, change - 4 * DAY, change + 4 * DAY)
    there = ZoneInfo(zone)
    days = tuple(str(datetime.fromtimestamp(change + shift * DAY, there).date()) for shift in (-1, 0))
    for lines in [(), ("* * * * 0",), ("* 2 * * *", "26 * * * *"), ("*/7 0-3 * * *",)]:
        gone = excepted(days, lines, minutes)
        for line in ("*/13 * * * *", "30 1 * * *", "0 */2 * * *"):
            every = [at for at in judge(line, minutes) if at not in gone]
            schedule = Schedule(cron=(line,), timezone=zone, except_days=days, except_cron=lines)
            start = change - 3 * DAY
            expected = [at for at in every if start < at <= change + 2 * DAY]
            assert nominals(schedule, start, change + 2 * DAY) == expected
            for at in expected[:: max(1, len(expected) // 8)]:
                found = moments(schedule, at, at).next
                assert found is None or found.previous == at


@pytest.mark.slow
def test_ten_thousand_days_left_out_are_passed_within_the_budget():
    days = tuple(str(datetime.fromtimestamp(number * DAY, ZoneInfo("UTC")).date()) for number in range(10_000))
    found = moments(Schedule(every=1, except_days=days), 0, 10_000 * DAY, 3)
    assert [one.nominal for one in found.moments] == [10_000 * DAY]


@pytest.mark.slow
@settings(max_examples=40)
@given(st.integers(0, 2**33), st.integers(1, 86_400), st.text(max_size=5))
def test_jitter_is_less_than_the_gap_and_the_same_each_time(since, jitter, trigger):
    schedule = Schedule(every=60, jitter=jitter)
    found = moments(schedule, since, since + 300, trigger=trigger).moments
    assert found == moments(schedule, since, since + 300, trigger=trigger).moments
    for one, after in pairwise(found):
        assert one.nominal <= one.due < after.nominal <= after.due
        assert one.due < one.nominal + jitter


def test_jitter_differs_between_triggers_and_delays_what_is_due():
    schedule = Schedule(every=3600, jitter=600)
    delays = {moments(schedule, 0, 1e5, 1, trigger=f"t{number}").moments[0].due - 3600 for number in range(200)}
    assert len(delays) > 190
    assert max(delays) > 500
    assert min(delays) < 100
    late = moments(schedule, 0, 3600, trigger="t1")
    assert late.moments == ()  # the moment has come, and it is not due yet
    assert late.next is not None
    assert late.next.nominal == 3600


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "five fields"),
        ("* * * *", "not 4"),
        ("* * * * * *", "no seconds"),
        ("@daily", "0 0"),
        ("60 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of month"),
        ("* * 31 2 *", "no month"),
        ("* * * 13 *", "month"),
        ("* * * * FOO", "day of week"),
        ("5-1 * * * *", "minute"),
        ("*/0 * * * *", "minute"),
        ("1" * 400 + " * * * *", "characters"),
    ],
)
def test_a_wrong_line_is_refused_with_its_field(line, said):
    with pytest.raises(BadLine, match=said):
        parse_line(line)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.text(alphabet="0123456789*/,-#LWMONSAFE² ", max_size=40))
def test_any_line_is_read_or_refused(text):
    try:
        parse_line(text)
    except BadLine:
        return
    moments(Schedule(cron=(text,)), 0, 1e9, 2, budget=Budget())


@pytest.mark.parametrize("name", ["", "..", "/etc/passwd", "right/UTC", "Europe", "a" * 300, "Mars/Base", "\0", "é"])
def test_what_is_no_zone_is_refused(name):
    with pytest.raises(UnknownZone):
        get_zone(name)


def test_a_zone_that_is_nearly_right_is_suggested():
    with pytest.raises(UnknownZone, match="did you mean 'Europe/Oslo'"):
        get_zone("europe/oslo")
    with pytest.raises(UnknownZone, match="did you mean 'Europe/Berlin'"):
        get_zone("Europe/Berlim")


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia", "Asia/Gaza"])
def test_months_that_are_left_out_are_left_out_day_by_day(zone):
    """Whole months are passed at once, and halves of them by days: the moments are the same."""
    start, end = instant("2011-03-20"), instant("2012-02-10")
    for months in ("1,12", "2-9", "4,10"):
        whole = Schedule(cron=("40 */5 * * *",), timezone=zone, except_cron=(f"* * * {months} *",))
        halves = Schedule(
            cron=("40 */5 * * *",), timezone=zone, except_cron=(f"* * 1-16 {months} *", f"* * 16-31 {months} *")
        )
        wide = Budget.without_end()
        found = moments(whole, start, end, budget=wide)
        assert found == moments(halves, start, end, budget=wide), months
        for one in found.moments[:: max(1, len(found.moments) // 4)]:
            again = moments(whole, one.nominal - 1, one.nominal, budget=wide)
            assert again == moments(halves, one.nominal - 1, one.nominal, budget=wide), months


def test_the_moment_before_costs_no_more_than_half_a_look():
    few = ("* * 1-30 1-9 *", "* * 31 1-9 *", "* * 1-30 11-12 *", "* * 31 11-12 *")
    schedule = Schedule(cron=("* * * * *",), timezone="Europe/Berlin", except_cron=few)
    budget = Budget(200_000)
    found = moments(schedule, instant("2026-11-16"), instant("2026-11-16"), 1, budget=budget)
    assert found.next is not None
    assert budget.steps > -100_000


def test_months_that_are_left_out_cost_next_to_nothing():
    october = Schedule(cron=("* * * * *",), timezone="Europe/Berlin", except_cron=("* * * 11-12 *", "* * * 1-9 *"))
    budget = Budget(10_000)
    found = moments(october, instant("2026-11-16"), instant("2026-11-16"), 1, budget=budget).next
    assert found is not None
    assert (found.nominal, found.previous) == (instant("2027-09-30T22:00:00"), instant("2026-10-31T22:59:00"))
    never = Schedule(every=1, except_cron=("* * * * *",))
    assert moments(never, 0, 1e12, budget=Budget(1_000)).done
