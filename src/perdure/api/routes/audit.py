"""The audit over HTTP. What each operation does is in `perdure.service.audit`."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from perdure.access import Permission
from perdure.api.endpoints import Call, Routes
from perdure.api.parameters import Limit, Text, moment
from perdure.api.request_reader import Query
from perdure.api.schemas import general_schemas as s

routes = Routes("administration")
AUDIT = Permission.AUDIT_READ


class ListAudit(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    principal: Text | None = None
    action: Text | None = None
    object: Text | None = None
    since: Annotated[str, Meta(description="Then or later: seconds since 1970, or RFC 3339.")] | None = None
    until: Annotated[str, Meta(description="Before then.")] | None = None
    limit: Limit = 100
    cursor: Text | None = None


@routes.get("/audit", AUDIT, s.AuditPage)
async def list_audit(call: Call, query: ListAudit) -> Any:
    """List the audit, newest first: which principal did what, to which object, and when."""
    pages = call.service.audit.list(
        principal=query.principal,
        action=query.action,
        object_=query.object,
        since=moment("since", query.since),
        until=moment("until", query.until),
        limit=query.limit,
        cursor=query.cursor,
    )
    return await pages.first()


@routes.get("/audit/verify", AUDIT, s.AuditVerdict)
async def verify_audit(call: Call) -> Any:
    """Verify that no entry of the audit was changed or removed: each one holds the hash of the one before it."""
    return await call.service.audit.verify()
