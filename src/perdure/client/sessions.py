"""Sessions: where the caller's key or token is logged in with a browser."""

from __future__ import annotations

from perdure.client import views as v
from perdure.client.http_calls import Call, delete, get
from perdure.client.operations import AsyncNoun, Noun, Page, listing, operation

PAGE = 100


class SessionsCalls:
    """Sessions of browsers that were opened with the caller's own key or token."""

    @listing
    def list(self, *, limit: int = PAGE, cursor: str | None = None) -> Call[Page[v.Session]]:
        """The sessions that have not ended, newest first."""
        return get("sessions", limit=limit, cursor=cursor)

    @operation
    def end(self, session_id: str) -> Call[v.Session]:
        """End a session. Within a second the server refuses it."""
        return delete("sessions", session_id)


class Sessions(SessionsCalls, Noun):
    __doc__ = SessionsCalls.__doc__


class AsyncSessions(SessionsCalls, AsyncNoun):
    __doc__ = SessionsCalls.__doc__
