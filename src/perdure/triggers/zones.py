"""Time zones: instants and the clocks on walls. Zones come from the system, and from the package tzdata where it has none."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from perdure.spelling import find_close

_STRANGE = ("posix/", "right/")
"""Folders of zones that are no zones: copies, and clocks that count leap seconds."""


class UnknownZone(ValueError):
    """A name is no time zone."""


@lru_cache(maxsize=1000)
def get_zone(name: str) -> ZoneInfo:
    """Raises UnknownZone, with a suggestion."""
    try:
        if len(name) > 100 or name.startswith(_STRANGE):
            raise ValueError(name)
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # KeyError: ZoneInfoNotFoundError
        pass
    known = sorted(available_timezones())
    folded = {one.casefold(): one for one in known}
    close = folded.get(name.casefold()) or find_close(name, known)
    hint = f"did you mean '{close}'?" if close else "use a name of the IANA list, such as Europe/Oslo or UTC"
    raise UnknownZone(f"there is no time zone {name[:60]!r}; {hint}")


def local(at: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(at, zone)


def offset_at(at: int, zone: ZoneInfo) -> int:
    """The seconds that clocks on the wall are ahead of UTC."""
    offset = datetime.fromtimestamp(at, zone).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def locate_change(low: int, high: int, zone: ZoneInfo) -> int:
    """The first instant of the offset that holds at `high`; at `low` there is another, and between them one change."""
    after = offset_at(high, zone)
    while high - low > 1:
        middle = (low + high) // 2
        if offset_at(middle, zone) == after:
            high = middle
        else:
            low = middle
    return high


class Tick(NamedTuple):
    """An instant, and what the change of a clock has to do with it."""

    at: int
    note: str = ""


def place(wall: datetime, zone: ZoneInfo) -> Tick:
    """When a clock on the wall shows a time: the first time it does, and if it never does, when it is put forward."""
    first = int(wall.replace(tzinfo=zone, fold=0).timestamp())
    second = int(wall.replace(tzinfo=zone, fold=1).timestamp())
    if first == second:
        return Tick(first)
    if first < second:
        return Tick(first, f"{wall:%H:%M} comes twice, the first")
    changed = locate_change(second, first, zone)
    return Tick(changed, f"{wall:%H:%M} does not exist, {local(changed, zone):%H:%M}")


def say_time(at: int | float, zone: ZoneInfo | None = None) -> str:
    """A time with its offset; in UTC without a zone."""
    text = datetime.fromtimestamp(at, zone or UTC).isoformat(timespec="seconds")
    return text.removesuffix("+00:00") + "Z" if zone is None else text
