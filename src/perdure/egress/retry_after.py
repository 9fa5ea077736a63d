"""How long a server wants to be left alone: `Retry-After`, in seconds or as a date."""

from __future__ import annotations

from email.utils import parsedate_to_datetime

LONGEST_SECONDS = 86_400.0


def read_retry_after(value: str, date: str, now: float) -> float | None:
    """The seconds of a `Retry-After`, or the seconds until its date by the server's own clock, which `date` tells; None
    if it says nothing."""
    value = value.strip()
    if value.isdecimal() and value.isascii():
        return min(float(value[:12]), LONGEST_SECONDS)
    until = _read_date(value)
    if until is None:
        return None
    server = _read_date(date)
    return min(max(until - (now if server is None else server), 0.0), LONGEST_SECONDS)


def _read_date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
