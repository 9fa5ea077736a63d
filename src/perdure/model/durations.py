"""Durations as people write them: `90s`, `15m`, `2h`, `1d`, or a number of seconds."""

from __future__ import annotations

import re

from perdure.model.fields import YEAR_SECONDS, Fields, plain_number
from perdure.model.problems import describe

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
PATTERN = r"[0-9]{1,12}(?:\.[0-9]{1,3})?[smhd]"
LONGEST = 10 * YEAR_SECONDS

_DURATION = re.compile(rf"{PATTERN}\Z")


def parse_duration(text: str) -> int | float | None:
    """The seconds of a duration; None when the text is none."""
    if _DURATION.match(text) is None:
        return None
    return plain_number(float(text[:-1]) * UNITS[text[-1]])


def say_duration(seconds: int | float) -> str:
    """A duration in the largest unit that leaves a whole number: 90s, 15m, 2h, 1d."""
    for unit, size in reversed(UNITS.items()):
        if seconds >= size and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{seconds:g}s"


def read_duration(
    fields: Fields, key: str, low: int | float = 0, high: int | float = LONGEST, *, whole: bool = False
) -> int | float | None:
    """The seconds of `key`, from `low` to `high`; `whole`: without a fraction."""
    value = fields.data.get(key)
    if value is None:
        return None
    seconds = parse_duration(value) if isinstance(value, str) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        fields.error(
            "wrong_value" if isinstance(value, str) else "wrong_type",
            key,
            f"'{key}' of {fields.what} must be a duration such as 90s, 15m, 2h or 1d, or seconds, got {describe(value)}",
        )
        return None
    seconds = plain_number(seconds)
    if not low <= seconds <= high:
        limits = f"between {say_duration(low)} and {say_duration(high)}"
        fields.error("wrong_value", key, f"expected '{key}' of {fields.what} {limits}, got {describe(value)}")
        return None
    if whole and not isinstance(seconds, int):
        fields.error("wrong_value", key, f"expected '{key}' of {fields.what} in whole seconds, got {describe(value)}")
        return None
    return seconds
