"""The moments of a schedule, from a cursor on.

A moment is an instant in whole seconds; `nominal` is the moment itself and `due` when it is acted on, which jitter
delays. Moments grow strictly and depend on the cursor, never on the clock of this process. All work is paid for from a
budget: what is not found within it is looked for again from where the look ended.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

import msgspec

from perdure.budget import Budget, OverBudget
from perdure.errors import PerdureError
from perdure.model.trigger_sources import Schedule
from perdure.triggers.cron import STEPS, Cron, Spend
from perdure.triggers.zones import Tick, get_zone, local, place

MOST_MOMENTS = 10_000
LOOK_STEPS = 2_000_000
"""What one look may cost, half a second: about as much as the most moments of one look."""
_LATEST = 200_000_000_000
"""Beyond it, in the year 8307, calendars end."""
_EXCEPT_STEPS = 4  # to look at one instant, and at each line of it
_DAY_STEPS = 30  # to find where a day ends or begins
_NEAR = 3 * 86_400
"""More than clocks were ever changed at once: this far from its ends, a month on the wall is that month."""


class BadSchedule(PerdureError):
    """A schedule that has no moments, or takes too long to look at."""

    code = "bad_schedule"
    status = 422


class Moment(msgspec.Struct, frozen=True):
    nominal: int
    due: float
    previous: int | None
    """The moment before; None when there is none, or too much is left out between them to find it."""
    next: int | None
    note: str = ""
    """What the change of a clock did to it."""


class Moments(msgspec.Struct, frozen=True):
    """The result of one look."""

    moments: tuple[Moment, ...]
    next: Moment | None
    """The first moment that is not among them: not due yet, or beyond the limit."""
    looked: int
    """Up to which instant every moment is known. Without a next moment the following look goes on from here."""
    done: bool = False
    """There are no more moments, now or later."""


class _Short(Exception):
    """The budget ended; what is known up to here is known."""

    def __init__(self, looked: int) -> None:
        super().__init__()
        self.looked = looked


JUST_BEFORE = 0.001
"""A look finds moments later than a cursor: from a time on, they are those later than just before it."""


def moments(
    schedule: Schedule,
    since: float,
    until: float,
    limit: int = MOST_MOMENTS,
    *,
    trigger: str = "",
    budget: Budget | None = None,
) -> Moments:
    """The moments later than the cursor `since` that are due by `until`, at most `limit`. `trigger` gives the jitter.

    Raises BadSchedule for a schedule that `check_schedule` refuses."""
    found: list[Moment] = []
    compiled = compile_schedule(schedule)
    budget = budget or Budget(LOOK_STEPS)
    half = min(LOOK_STEPS, budget.steps) // 2
    looked = max(-1, int(since // 1))
    ticks = compiled.iterate(looked, budget.spend)
    this: Tick | None = None
    previous: Tick | None = None
    try:
        this = next(ticks, None)
        previous = None if this is None else _find_previous(compiled, this, budget, half)
        while this is not None:
            following = next(ticks, None)
            moment = _make(compiled, this, previous, None if following is None else following.at, trigger)
            if moment.due > until or len(found) >= limit:
                return Moments(tuple(found), moment, looked)
            found.append(moment)
            previous, this, looked = this, following, moment.nominal
    except _Short as short:
        if this is None:
            return Moments((), None, max(looked, short.looked))
        if not found:  # its successor is far behind what is left out: it must not wait for that for ever
            moment = _make(compiled, this, previous, short.looked + 1, trigger)
            moment = msgspec.structs.replace(moment, next=None)
            if moment.due > until or limit < 1:
                return Moments((), moment, looked)
            return Moments((moment,), None, this.at)
        return Moments(tuple(found), None, looked)
    return Moments(tuple(found), None, looked, done=True)


def _find_previous(compiled: Compiled, this: Tick, budget: Budget, steps: int) -> Tick | None:
    """The moment before. It has a budget of its own, so that it takes nothing from a look that needs all of one; what
    it costs is paid afterwards."""
    own = Budget(steps)
    try:
        return compiled.find_previous(this.at, own.spend)
    except OverBudget:  # behind more than can be looked at: a moment is not held back for that
        return None
    finally:
        budget.steps -= steps - own.steps


def _make(compiled: Compiled, this: Tick, previous: Tick | None, following: int | None, trigger: str) -> Moment:
    delay = 0.0
    if compiled.jitter:
        longest = compiled.jitter if following is None else min(compiled.jitter, following - this.at)
        digest = hashlib.sha256(f"{trigger}\n{this.at}".encode()).digest()
        # 52 bits: less than one, always, so that no moment is due with or after the next.
        delay = int(longest * 1000 * (int.from_bytes(digest[:8], "big") >> 12) / 2**52) / 1000
    return Moment(
        this.at,
        float(this.at) + delay,
        None if previous is None else previous.at,
        following,
        this.note,
    )


def check_schedule(schedule: Schedule, now: float, budget: Budget | None = None) -> bool:
    """Whether the schedule has a moment from now on. Raises BadSchedule when it never had one, or it cannot be found."""
    compile_schedule(schedule).forget()  # it is refused or accepted every time
    found = moments(schedule, now - 1, now - 1, 1, budget=budget)
    if found.next is not None:
        return True
    if not found.done:
        raise BadSchedule("no moment is found from now on within reasonable work; leave out fewer of them")
    if moments(schedule, -1, -1, 1, budget=budget).done:
        raise BadSchedule("it has no moment at all; look at its days, and at from, until and except")
    return False


# -- a schedule, understood --------------------------------------------------------------------------------------------


@lru_cache(maxsize=200)
def compile_schedule(schedule: Schedule) -> Compiled:
    """Raises BadSchedule, or ValueError: UnknownZone, BadLine, BadTime."""
    return Compiled(schedule)


class BadTime(ValueError):
    """A text is no time of the calendar."""


class Compiled:
    __slots__ = (
        "_crons",
        "_days",
        "_every",
        "_excepted",
        "_first",
        "_last",
        "_listed",
        "_months",
        "_offset",
        "jitter",
        "zone",
    )

    def __init__(self, schedule: Schedule) -> None:
        self.zone = get_zone(schedule.timezone)
        self.jitter = schedule.jitter
        self._crons = [Cron(line, self.zone) for line in schedule.cron]
        self._every, self._offset = schedule.every, schedule.offset
        listed = sorted({read_time(text, self.zone) for text in schedule.at})
        self._listed = [tick for number, tick in enumerate(listed) if not number or listed[number - 1].at != tick.at]
        self._days = frozenset(read_day(day) for day in schedule.except_days)
        self._excepted = [Cron(line, self.zone) for line in schedule.except_cron]
        self._months = frozenset[int]().union(*(cron.whole_months for cron in self._excepted))
        self._first = read_time(schedule.from_, self.zone).at if schedule.from_ else 0
        self._last = read_time(schedule.until, self.zone).at - 1 if schedule.until else _LATEST
        if self._last < self._first:
            raise BadSchedule("'until' is not later than 'from'")

    def forget(self) -> None:
        for cron in self._crons:
            cron.forget()

    def iterate(self, after: int, spend: Spend) -> Iterator[Tick]:
        """The moments later than `after`. Raises _Short when the budget ends."""
        at = max(after, self._first - 1)
        while at < self._last:
            try:
                spend(STEPS // 8)
                tick = self._find_next(at, spend)
                if tick is None or tick.at > self._last:
                    return
                free = self._find_free(tick.at, spend)
            except OverBudget:
                raise _Short(at) from None
            at = tick.at if free is None else free - 1
            if free is None:
                yield tick

    def find_previous(self, before: int, spend: Spend) -> Tick | None:
        at = min(before, self._last + 1)
        while at > self._first:
            spend(STEPS // 8)
            tick = self._find_last(at, spend)
            if tick is None or tick.at < self._first:
                return None
            if self._find_free(tick.at, spend) is None:
                return tick
            spend(_DAY_STEPS)
            at = self._start_of_free(tick.at)
        return None

    def _find_next(self, after: int, spend: Spend) -> Tick | None:
        if self._every:
            return Tick(after - (after - self._offset) % self._every + self._every)
        if self._listed:
            place = bisect_right(self._listed, after, key=lambda tick: tick.at)
            return self._listed[place] if place < len(self._listed) else None
        found = [tick for cron in self._crons if (tick := cron.find_next(after, spend)) is not None]
        return min(found, default=None)

    def _find_last(self, before: int, spend: Spend) -> Tick | None:
        if self._every:
            at = before - 1 - (before - 1 - self._offset) % self._every
            return Tick(at) if at >= 0 else None
        if self._listed:
            place = bisect_left(self._listed, before, key=lambda tick: tick.at)
            return self._listed[place - 1] if place else None
        found = [tick for cron in self._crons if (tick := cron.find_previous(before, spend)) is not None]
        return max(found, default=None)

    # -- what is left out ----------------------------------------------------------------------------------------------

    def _find_free(self, at: int, spend: Spend) -> int | None:
        """None when nothing leaves this instant out; otherwise a later one, before which nothing is free."""
        if not self._days and not self._excepted:
            return None
        spend(_EXCEPT_STEPS * (1 + len(self._excepted)))
        wall = local(at, self.zone)
        if self._is_free_day(wall):
            spend(_DAY_STEPS)
            return self._end_of_months(at, wall) if wall.month in self._months else self._end_of_day(at)
        spend(_EXCEPT_STEPS * len(self._excepted))
        return at - wall.second + 60 if any(cron.matches(wall) for cron in self._excepted) else None

    def _start_of_free(self, at: int) -> int:
        """The beginning of the stretch up to this instant in which no instant is free; the instant must be left out, and may be that
        beginning."""
        wall = local(at, self.zone)
        if not self._is_free_day(wall):
            return at
        if wall.month in self._months:
            first = self._find_month(wall, -1)
            begin = self._first if first is None else place(_next_month(first), self.zone).at + _NEAR
            if begin < at:
                return begin
        return self._start_of_day(at)

    def _end_of_months(self, at: int, wall: datetime) -> int:
        """Where the months end that are left out as a whole, or shortly before."""
        free = self._find_month(wall, 1)
        if free is None:
            return self._last + 1
        end = place(free, self.zone).at - _NEAR
        return end if end > at else self._end_of_day(at)

    def _find_month(self, wall: datetime, step: int) -> datetime | None:
        """The beginning of the next month, or of the last one before, that is not left out as a whole; None if there is none."""
        year, month = wall.year, wall.month
        for _ in range(11):
            year, month = year + (month + step) // 13 - (month + step == 0), (month + step - 1) % 12 + 1
            if month not in self._months:
                return datetime(year, month, 1)  # noqa: DTZ001  (a clock on the wall has no zone)
        return None

    def _is_free_day(self, wall: datetime) -> bool:
        return wall.date() in self._days or any(cron.whole_days and cron.matches(wall) for cron in self._excepted)

    def _end_of_day(self, at: int) -> int:
        """The first instant of another day on the wall. A day has up to 26 hours, or is cut in two by a change."""
        wall = local(at, self.zone)
        end = at + 60 - wall.second
        later = at + (24 - wall.hour) * 3600 - wall.minute * 60 - wall.second
        for candidate in (later, later - 3600, later + 3600):
            there = local(candidate, self.zone)
            before = local(candidate - 1, self.zone)
            if candidate > at and before.date() == wall.date() != there.date():
                return candidate
        return end

    def _start_of_day(self, at: int) -> int:
        """The first instant of this day on the wall, or a later one of it when clocks change on it."""
        wall = local(at, self.zone)
        start = at - wall.hour * 3600 - wall.minute * 60 - wall.second
        there = local(start, self.zone)
        return start if there.date() == wall.date() and there.utcoffset() == wall.utcoffset() else at


def _next_month(first: datetime) -> datetime:
    return first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)


def read_day(text: str) -> object:
    try:
        return datetime.fromisoformat(text).date()
    except ValueError:
        raise BadTime(f"{text!r} is no day of the calendar") from None


def read_time(text: str, zone: ZoneInfo) -> Tick:
    """A time as it is written: with an offset, or by the clock in this zone, at the beginning of the day without one."""
    try:
        wall = datetime.fromisoformat(text)
    except ValueError:
        raise BadTime(f"{text!r} is no time of the calendar") from None
    if not 1970 <= wall.year < 8000:
        raise BadTime(f"{text!r} is not between the years 1970 and 8000")
    if wall.tzinfo is not None:
        return Tick(int(wall.astimezone(UTC).timestamp()))
    return place(wall, zone)
