"""Lines that handlers wrote, and how long they may be."""

from __future__ import annotations

import msgspec

LOG_LINES = 10_000
"""How many lines of one run are kept; the oldest make room."""
LOG_LINE_BYTES = 4096
"""The longest line; a longer one is cut, with a mark."""


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that a handler printed, logged or wrote with `ctx.log`."""

    tenant: str
    run_id: str
    node: str
    visit: int = 1
    attempt: int = 1
    at: float
    level: str = "info"
    message: str


class StoredLine(msgspec.Struct, frozen=True):
    """A log line and its position within the run, from 1. A gap means that older lines made room."""

    position: int
    line: LogLine


def cut_message(message: str) -> bytes:
    """The message in at most `LOG_LINE_BYTES`, in whole characters; characters that cannot be encoded are replaced."""
    data = message.encode("utf-8", "replace")
    if len(data) <= LOG_LINE_BYTES:
        return data
    mark = " …".encode()
    return data[: LOG_LINE_BYTES - len(mark)].decode("utf-8", "ignore").encode() + mark
