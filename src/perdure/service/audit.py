"""The audit: who did what, and whether the trace is whole. It must not know HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from perdure.access import verify_audit
from perdure.archive.audit_chain import AuditFilter, AuditRecord
from perdure.service.pages import listing
from perdure.service.views import View, page_view

if TYPE_CHECKING:
    from perdure.service.tenancy import Tenancy


class AuditTrail:
    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy

    @listing
    async def list(
        self,
        *,
        principal: str | None = None,
        action: str | None = None,
        object_: str | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> View:
        """The audit entries of this tenant, newest first."""
        where = AuditFilter(principal=principal, action=action, object=object_, since=since, until=until)
        page = await self._tenancy.archive.list_audit(self._tenancy.tenant, where, limit=limit, cursor=cursor)
        return page_view(page, _audit_view)

    async def verify(self, known: Mapping[int, bytes] | None = None) -> View:
        """Whether any audit entry was changed or removed; `known` are hashes that were kept elsewhere."""
        verdict = await verify_audit(self._tenancy.archive, self._tenancy.tenant, known)
        return {
            "intact": verdict.broken_seq is None,
            "entries": verdict.entries,
            "head": None if verdict.head is None else verdict.head.hash.hex(),
            "broken_seq": verdict.broken_seq,
            "problem": verdict.problem,
        }


def _audit_view(record: AuditRecord) -> View:
    entry = record.entry
    return {
        "seq": record.seq,
        "at": entry.at,
        "principal": entry.principal,
        "action": entry.action,
        "object": entry.object,
        "detail": msgspec.json.decode(entry.detail),
        "request_id": entry.request_id,
        "hash": record.hash.hex(),
    }
