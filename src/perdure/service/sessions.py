"""Sessions: where a person is logged in, seen and ended by that person. It must not know HTTP.

Only the sessions of the caller's own credential are there; those of others do not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.access import IDLE_SECONDS, name_of
from perdure.archive.credentials import Session
from perdure.errors import NotFound
from perdure.service.pages import listing
from perdure.service.views import View, page_view

if TYPE_CHECKING:
    from perdure.service.tenancy import Tenancy


class Sessions:
    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy
        self._owner = name_of(tenancy.principal)

    @listing
    async def list(self, *, limit: int = 100, cursor: str | None = None) -> View:
        """The caller's sessions that have not ended, newest first."""
        now = self._tenancy.engine.clock.now()
        page = await self._tenancy.archive.list_sessions(
            self._tenancy.tenant, self._owner, now=now, seen_after=now - IDLE_SECONDS, limit=limit, cursor=cursor
        )
        return page_view(page, self._view)

    async def end(self, session_id: str) -> View:
        """End one of the caller's sessions. Within a second every process refuses it."""
        ended = await self._tenancy.archive.end_session(self._tenancy.tenant, self._owner, session_id)
        if ended is None:
            raise NotFound(f"there is no session {session_id[:80]!r} of yours")
        return self._view(ended)

    def _view(self, session: Session) -> View:
        return {
            "session_id": session.session_id,
            "agent": session.agent,
            "created_at": session.created_at,
            "seen_at": session.seen_at,
            "expires_at": session.expires_at,
            "current": session.session_id == self._tenancy.principal.session_id,
        }
