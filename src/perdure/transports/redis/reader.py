"""Reading bytes from Redis: the one place where they become text and numbers.

Any client that can write to Redis chooses them, and needs no signing key for that. What cannot be read is refused, as
an unsigned message is.
"""

from __future__ import annotations

import math
from typing import Any

from perdure.transports.envelopes import EnvelopeRefused

LONGEST_NUMBER = 20
"""The most digits a number may have; none that Perdure writes has more."""


def text_of(raw: Any) -> str:
    """The bytes as text. Raises `EnvelopeRefused`."""
    try:
        return str(raw, "utf-8")
    except (UnicodeDecodeError, TypeError) as error:
        raise EnvelopeRefused("expected text in UTF-8") from error


def shown(raw: bytes) -> str:
    """The bytes as text, with replacements: for the log, and for names that only have to differ from all others."""
    return raw.decode("utf-8", "replace")


def number_of(raw: str | bytes) -> int:
    """The bytes as a whole number. Raises `EnvelopeRefused`."""
    if len(raw) > LONGEST_NUMBER or not raw.isdigit() or not raw.isascii():
        raise EnvelopeRefused("expected a whole number")
    return int(raw)


def order_of(raw: bytes) -> float:
    """A number used only for sorting; bytes that are no number come first."""
    try:
        number = float(raw)
    except ValueError:
        return 0.0
    return 0.0 if math.isnan(number) else number
