"""Keys, audit, logs and the caller's own identity, over HTTP. What each does is in `perdure.service.administration`."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from perdure.access import Permission, Role
from perdure.api import schemas as s
from perdure.api.endpoints import Call, Routes
from perdure.api.parameters import Limit, Sequence, Text, moment, sequence
from perdure.api.reading import Body, Query
from perdure.api.workflows import Paged

routes = Routes("administration")
KEYS, AUDIT = Permission.KEYS_ADMIN, Permission.AUDIT_READ


@routes.get("/me", Permission.SYSTEM_READ, s.Me)
async def me(call: Call) -> Any:
    """Who you are here, and what you may do."""
    return await call.service.system.me()


class CreateKey(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[
        str, Meta(description="What stands in journal and audit for what it does.", min_length=1, max_length=200)
    ]
    roles: Annotated[list[Role], Meta(min_length=1, max_length=5)]
    scopes: Annotated[list[Permission], Meta(description="Only these permissions of its roles.", max_length=50)] = (
        msgspec.field(default_factory=list)
    )
    expires_seconds: Annotated[float, Meta(gt=0, le=3.2e9)] | None = None


@routes.post("/keys", KEYS, s.IssuedKey, status=201)
async def create_key(call: Call, body: CreateKey) -> Any:
    """Make an API key of your tenant. The answer shows it, once."""
    view = await call.service.keys.create(
        body.name, body.roles, scopes=body.scopes, expires_seconds=body.expires_seconds
    )
    call.object = view["key_id"]
    return view


@routes.get("/keys", KEYS, s.KeyPage)
async def list_keys(call: Call, query: Paged) -> Any:
    """The keys of your tenant, newest first; never the keys themselves."""
    return await call.service.keys.list(limit=query.limit, cursor=query.cursor).first()


@routes.delete("/keys/{key_id}", KEYS, s.Key)
async def revoke_key(call: Call) -> Any:
    """Revoke a key: from within a second on it is good for nothing."""
    return await call.service.keys.revoke(call.path("key_id"))


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
    """Who did what, newest first."""
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
    """Whether the audit is as it was written: each entry holds the hash of the one before it."""
    return await call.service.audit.verify()


class ReadLogs(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    node: Text | None = None
    after: Annotated[Sequence, Meta(description="Only lines after this position.")] = 0
    cursor: Annotated[str, Meta(description="The same as `after`.", pattern="^[0-9]{1,15}$")] | None = None
    limit: Limit = 100


@routes.get("/runs/{run_id}/logs", Permission.RUNS_READ, s.LogPage)
async def logs(call: Call, query: ReadLogs) -> Any:
    """What handlers of a run said with `ctx.log`."""
    after = sequence(query.cursor, query.after)
    pages = call.service.runs.logs(call.path("run_id"), node=query.node, after=after, limit=query.limit)
    return await pages.first()
