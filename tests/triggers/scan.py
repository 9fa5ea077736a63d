"""A second calendar, too simple to be wrong: it looks at every minute. It shares no line with the one it judges."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
NAMES = {
    **{name: number for number, name in enumerate("SUN MON TUE WED THU FRI SAT".split())},
    **{name: number for number, name in enumerate("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split(), 1)},
}


def number_of(word):
    return NAMES[word.upper()] if word.upper() in NAMES else int(word)


def expand(field, low, high):
    found = set()
    for term in field.split(","):
        span, _, step = term.partition("/")
        if span == "*":
            first, last = low, high
        elif "-" in span:
            first, last = (number_of(word) for word in span.split("-"))
        else:
            first = number_of(span)
            last = high if step else first
        found |= set(range(first, last + 1, int(step or 1)))
    return found


class Line:
    """Five fields of numbers, names, ranges, lists and steps, as the manual of cron in Debian has them."""

    def __init__(self, text):
        words = text.split()
        self.minutes, self.hours, self.days, self.months, weekdays = (
            expand(word, *span) for word, span in zip(words, RANGES, strict=True)
        )
        self.weekdays = {day % 7 for day in weekdays}
        self.both = words[2][0] == "*" or words[4][0] == "*"
        self.at_a_time = words[0][0] != "*" and words[1][0] != "*"

    def matches(self, wall):
        if wall.minute not in self.minutes or wall.hour not in self.hours or wall.month not in self.months:
            return False
        day, weekday = wall.day in self.days, wall.isoweekday() % 7 in self.weekdays
        return (day and weekday) if self.both else (day or weekday)


def scan(zone, start, end):
    """(instant, wall) of every minute from start to end."""
    there = ZoneInfo(zone)
    return [(at, datetime.fromtimestamp(at, there).replace(tzinfo=None)) for at in range(start, end, 60)]


def judge(text, minutes):
    """The moments among the scanned minutes. Where a job is due at a time of day, each such time counts once."""
    line = Line(text)
    if not line.at_a_time:
        return [at for at, wall in minutes if line.matches(wall)]
    firsts: dict = {}
    for at, wall in minutes:
        firsts.setdefault(wall, at)
    found = set()
    wall, last = minutes[0][1], minutes[-1][1]
    while wall <= last:
        if line.matches(wall):
            found.add(firsts[wall] if wall in firsts else next(at for at, shown in minutes if shown > wall))
        wall += timedelta(minutes=1)
    return sorted(found)


def find_changes(zone, start, end):
    """The hours in which the clocks of a zone change."""
    there = ZoneInfo(zone)
    offsets = [(at, datetime.fromtimestamp(at, there).utcoffset()) for at in range(start, end, 3600)]
    return [second[0] for first, second in pairwise(offsets) if first[1] != second[1]]


def instant(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
