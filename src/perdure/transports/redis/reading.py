"""Bytes from Redis, read: the one place where they become text and numbers.

Whoever can write to Redis chooses them, and needs no key for that. What cannot be read is refused, as an unsigned message is.
"""

from __future__ import annotations

import math
from typing import Any

from perdure.envelopes import EnvelopeRefused

LONGEST_NUMBER = 20
"""Digits; none that Perdure writes has more."""


def text_of(raw: Any) -> str:
    """Raises `EnvelopeRefused`."""
    try:
        return str(raw, "utf-8")
    except (UnicodeDecodeError, TypeError) as error:
        raise EnvelopeRefused("what should be text is none") from error


def shown(raw: bytes) -> str:
    """As text in any case, for names that only have to be unlike all others, and for the log."""
    return raw.decode("utf-8", "replace")


def number_of(raw: str | bytes) -> int:
    """Raises `EnvelopeRefused`."""
    if len(raw) > LONGEST_NUMBER or not raw.isdigit() or not raw.isascii():
        raise EnvelopeRefused("what should be a number is none")
    return int(raw)


def order_of(raw: bytes) -> float:
    """A number that things are only put in order by; what is none comes first."""
    try:
        number = float(raw)
    except ValueError:
        return 0.0
    return 0.0 if math.isnan(number) else number
