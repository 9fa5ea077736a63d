"""One cron line in one time zone: the first moment after an instant, and the last one before.

The only file that knows cronsim, which is asked about wall clocks without a zone and nothing else: where clocks change,
it gives moments in the past and loses others. A line whose minute and hour are both written out runs once a
day whatever clocks do: a time that does not exist runs when clocks have been put forward, one that comes twice runs
the first time. Any other line follows the clock on the wall, minute by minute.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from perdure.triggers.zones import Tick, local, locate_change, offset_at, place

LONGEST_LINE = 300
FURTHEST = 50 * 366 * 86_400
"""How far a moment may be away, in seconds. Leap days on a Monday come every 28 years, or after 40."""
_SHIFT = 49 * 3600
"""More than any clock was ever changed at once, twice."""
_MINUTE = timedelta(minutes=1)
_FAR_DAYS = 366
_MOST_FAR = 10_000
_far: dict[str, tuple[datetime, datetime | None]] = {}
"""For lines whose matches lie years apart: from where the next match was looked for last, and the match. A look whose budget ends with
the first lines of a schedule finds theirs again for nothing and gets on with the others; it would end there every time."""
STEPS = 200  # of a `Budget`, for one moment
_DAY_STEPS = 4  # and for each day that is passed without one


class BadLine(ValueError):
    """What is wrong with a cron line."""


Spend = Callable[[int], None]


@lru_cache(maxsize=2000)
def parse_line(line: str) -> CronSim:
    """The line, understood. Raises BadLine."""
    if len(line) > LONGEST_LINE:
        raise BadLine(f"a cron line has at most {LONGEST_LINE} characters")
    fields = len(line.split())
    if line.lstrip().startswith("@"):
        raise BadLine("names such as @daily are not accepted; write the five fields, such as '0 0 * * *'")
    if fields == 6:
        raise BadLine("a cron line has five fields and no seconds; use every for those")
    if fields != 5:
        raise BadLine(f"a cron line has five fields (minute, hour, day, month, weekday), not {fields}")
    try:
        return CronSim(line, datetime(2000, 1, 1))  # noqa: DTZ001  (a clock on the wall has no zone)
    except CronSimError as error:
        word = str(error).removeprefix("Bad ").replace("-", " ")
        more = ", or no month has such a day" if word == "day of month" else ""
        raise BadLine(f"its field {word} is not understood{more}") from None


class Cron:
    """A line in a zone."""

    __slots__ = ("_fixed", "_line", "_text", "_zone")

    def __init__(self, line: str, zone: ZoneInfo) -> None:
        """Raises BadLine."""
        self._line = parse_line(line)
        self._text = line
        self._zone = zone
        minute, hour = line.split()[:2]
        self._fixed = not minute.startswith("*") and not hour.startswith("*")

    @property
    def whole_days(self) -> bool:
        """Whether a day on which it matches is matched in every minute."""
        return len(self._line.minutes) == 60 and len(self._line.hours) == 24

    @property
    def whole_months(self) -> frozenset[int]:
        """The months of which it matches every minute of every day."""
        line = self._line
        each_day = line.days.issuperset(range(1, 32)) and line.weekdays.issuperset(range(1, 7))
        each_day = each_day and not line.weekdays.isdisjoint((0, 7))
        return frozenset(line.months) if self.whole_days and each_day else frozenset()

    def matches(self, wall: datetime) -> bool:
        line = self._line
        return (
            wall.minute in line.minutes
            and wall.hour in line.hours
            and wall.month in line.months
            and line.match_day(wall.date())
        )

    def find_next(self, after: int, spend: Spend) -> Tick | None:
        """The first moment later than `after`; None when there is none for fifty years."""
        return self._next_fixed(after, spend) if self._fixed else self._next_flowing(after, spend)

    def find_previous(self, before: int, spend: Spend) -> Tick | None:
        """The last moment earlier than `before`, as far as fifty years back."""
        lowest = max(-1, before - FURTHEST)
        top = before
        while top > lowest:
            at, certain = self._look_back(top, spend)
            if at is None:
                return None
            tick = self._find_last(at - 1, before, spend) if certain else None
            if tick is not None:
                return tick
            # Near a change of the clock the wall says little: go through what is there, beginning with the latest.
            bottom, high, width = max(lowest, at - _SHIFT), min(top, at + _SHIFT), 7200
            low = high
            while low > bottom:
                low = max(bottom, high - width)
                width *= 2
                if (tick := self._find_last(low, before, spend)) is not None:
                    return tick
            top = bottom
        return None

    def _find_last(self, after: int, before: int, spend: Spend) -> Tick | None:
        """The last moment between two instants, found by going through all of them."""
        found = None
        tick = self.find_next(after, spend)
        while tick is not None and tick.at < before:
            found = tick
            tick = self.find_next(tick.at, spend)
        return found

    def _look_back(self, before: int, spend: Spend) -> tuple[int | None, bool]:
        """When the wall matched last, as if clocks had never changed; and whether they did not, near enough."""
        line = copy.copy(self._line)
        there = local(before, self._zone).replace(tzinfo=None)
        line.dt, line.tick_direction = there, -1
        try:
            found = next(line)
        except (StopIteration, OverflowError, ValueError):
            spend(_DAY_STEPS * FURTHEST // 86_400)
            return None, False
        at = before - int((there - found).total_seconds())
        hours = {*range(at - 5 * 3600, min(at + _SHIFT, before), 3600), *range(max(at, before - _SHIFT), before, 3600)}
        spend(STEPS + 4 * len(hours) + _DAY_STEPS * (there - found).days)
        return at, len({offset_at(one, self._zone) for one in (*hours, before)}) == 1

    # -- a time of day, whatever clocks do -----------------------------------------------------------------------------

    def _next_fixed(self, after: int, spend: Spend) -> Tick | None:
        wall = local(after, self._zone).replace(tzinfo=None)
        while True:
            spend(STEPS)
            found = self._walk(wall, spend)
            if found is None:
                return None
            wall = found
            tick = place(wall, self._zone)
            if tick.at > after:
                return tick if tick.at - after <= FURTHEST else None

    # -- the clock on the wall, minute by minute -----------------------------------------------------------------------

    def _next_flowing(self, after: int, spend: Spend) -> Tick | None:
        """Between two changes of the clock, walls and instants go together. So the next match of the wall is the moment
        unless the clock changes before; then it is looked for again from there on."""
        since, inclusive = after, False
        while since - after <= FURTHEST:
            spend(STEPS)
            offset = offset_at(since, self._zone)
            wall = local(since, self._zone).replace(tzinfo=None)
            found = self._walk(wall - _MINUTE if inclusive else wall, spend, wall if inclusive else None)
            if found is None:
                return None
            at = since + int((found - wall).total_seconds())
            near = min(at, since + _SHIFT)
            changed = self._find_first_change(since, near, offset, spend)
            if changed is not None:
                since, inclusive = changed, True
            elif near < at:  # between, no wall of any offset matches; around the match, look closely again
                since, inclusive = max(near, at - _SHIFT), False
            else:
                return Tick(at, self._say_again(at)) if at - after <= FURTHEST else None
        return None

    def _find_first_change(self, since: int, until: int, offset: int, spend: Spend) -> int | None:
        """When the clock changes first after `since`, up to `until`: no two changes are within the same hour."""
        at = since
        while at < until:
            at = min(at + 3600, until)
            spend(4)
            if offset_at(at, self._zone) != offset:
                return locate_change(max(since, at - 3600), at, self._zone)
        return None

    def _say_again(self, at: int) -> str:
        there = local(at, self._zone)
        return f"{there:%H:%M} for the second time" if there.fold else ""

    # -- walls ---------------------------------------------------------------------------------------------------------

    def _walk(self, wall: datetime, spend: Spend, least: datetime | None = None) -> datetime | None:
        """The first match later than the minute of `wall`; with `least`, not before it."""
        line = copy.copy(self._line)
        line.dt = wall.replace(second=59, microsecond=0)
        while True:
            found, days = self._advance(line)
            spend(_DAY_STEPS * days)
            if found is None or least is None or found >= least:
                return found

    def forget(self) -> None:
        """What a look costs from now on does not depend on those before."""
        _far.pop(self._text, None)

    def _advance(self, line: CronSim) -> tuple[datetime | None, int]:
        """The next match, and how many days were passed to find it."""
        before = line.dt
        since, known = _far.get(self._text, (None, None))
        if since == before or (since is not None and known is not None and since <= before < known):
            line.dt = known or before
            return known, 0
        try:
            found: datetime | None = next(line)
        except (StopIteration, OverflowError, ValueError):
            found = None
        days = FURTHEST // 86_400 if found is None else (found - before).days
        if days > _FAR_DAYS:
            if len(_far) >= _MOST_FAR:
                _far.clear()
            _far[self._text] = (before, found)
        return found, days
