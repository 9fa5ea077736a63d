"""Parameters that many routes share: limits, cursors, moments, tags, keys. Their errors say what is wrong with each."""

from __future__ import annotations

import datetime
import math
import re
from typing import Annotated, Any

from msgspec import Meta
from starlette.requests import Request

from perdure.api.problem_details import BadQuery
from perdure.service.errors import Invalid, Trouble

Limit = Annotated[int, Meta(description="At most so many.", ge=1, le=1000)]
Sequence = Annotated[int, Meta(ge=0, le=2**53)]
Text = Annotated[str, Meta(max_length=2000)]
DryRun = Annotated[bool, Meta(description="Only say what would happen.")]
AFTER_DESCRIPTION = "Only events after this number."

_KEY = re.compile(r"[!-~]{1,255}")
_LATEST = 32_503_680_000.0
"""The year 3000. A later moment is a mistake, such as milliseconds."""


def refuse(name: str, message: str) -> BadQuery:
    return BadQuery(f"the query: {name}: {message}", [Trouble(name, "wrong_value", message)])


def moment(name: str, text: str | None) -> float | None:
    """Read a moment: seconds since 1970, or a date and time as RFC 3339 writes it, in UTC if it names no zone."""
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = _read_date(name, text)
    if not math.isfinite(seconds) or not -_LATEST <= seconds <= _LATEST:
        raise refuse(name, "expected seconds since 1970 or a date between the years 1000 and 3000")
    return seconds


def _read_date(name: str, text: str) -> float:
    try:
        found = datetime.datetime.fromisoformat(text.strip())
        return (found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError):
        raise refuse(name, "expected seconds since 1970, or a date and time such as 2026-11-15T09:30:00Z") from None


def tag(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    name, _, value = text.partition("=")
    return name, value


def sequence(text: str | None, otherwise: int) -> int:
    """Read the number of an event from a cursor or a header."""
    if text is None or text == "":
        return otherwise
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise refuse("cursor", "expected the number of an event")
    return int(text)


def idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        raise refuse("Idempotency-Key", "expected 1 to 255 printable ASCII characters without spaces")
    return key


def either(name: str, value: Any, other: str, second: Any) -> Any:
    """The value of a key that has two spellings; both may be given if they agree."""
    if value is not None and second is not None and value != second:
        message = f"{name} and {other} mean the same; give only one of them"
        raise Invalid(message, [Trouble(other, "conflicting_keys", message)])
    return second if value is None else value
