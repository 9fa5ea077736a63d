"""The types of answers about events. See `schemas.py`."""

from __future__ import annotations

from perdure.api.schemas import View


class EventSent(View, frozen=True, kw_only=True):
    name: str
    id: str
    key: str
    position: int
    """Its place among everything that has happened: a later event has a higher one."""
    duplicate: bool
    """An event of this name had the id before: nothing has happened."""
