"""The types of answers about sessions. See `schemas.py`."""

from __future__ import annotations

from perdure.api.schemas.general_schemas import View


class Session(View, frozen=True, kw_only=True):
    session_id: str
    agent: str
    """The browser's own name for itself."""
    created_at: float
    seen_at: float
    """When it was last used, to the minute."""
    expires_at: float
    current: bool
    """Whether the request came with this session."""


class SessionPage(View, frozen=True):
    items: list[Session]
    next_cursor: str | None
