"""The audit: who did what, and whether the trace is whole."""

from __future__ import annotations

from perdure.client import views as v
from perdure.client.http_calls import Call, get
from perdure.client.operations import AsyncNoun, Noun, Page, listing, operation

PAGE = 100


class AuditCalls:
    """The audit: who did what."""

    @listing
    def list(
        self,
        *,
        principal: str | None = None,
        action: str | None = None,
        object_: str | None = None,
        since: float | str | None = None,
        until: float | str | None = None,
        limit: int = PAGE,
        cursor: str | None = None,
    ) -> Call[Page[v.AuditEntry]]:
        """The audit entries, newest first."""
        more = {"since": since, "until": until, "limit": limit, "cursor": cursor}
        return get("audit", principal=principal, action=action, object=object_, **more)

    @operation
    def verify(self) -> Call[v.AuditVerdict]:
        """Whether the audit is unchanged since it was written."""
        return get("audit", "verify")


class Audit(AuditCalls, Noun):
    __doc__ = AuditCalls.__doc__


class AsyncAudit(AuditCalls, AsyncNoun):
    __doc__ = AuditCalls.__doc__
