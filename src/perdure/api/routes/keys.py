"""API keys and the caller's own identity, over HTTP. What each does is in `perdure.service.keys`."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from perdure.access import Permission, Role
from perdure.api.endpoints import Call, Routes
from perdure.api.request_reader import Body
from perdure.api.routes.workflows import Paged
from perdure.api.schemas import general_schemas as s

routes = Routes("administration")
KEYS = Permission.KEYS_ADMIN


@routes.get("/me", Permission.SYSTEM_READ, s.Me)
async def me(call: Call) -> Any:
    """Get your own identity on this server, and what it is allowed to do."""
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


@routes.post("/keys", KEYS, s.IssuedKey, status=201, secret=True)
async def create_key(call: Call, body: CreateKey) -> Any:
    """Make an API key for your tenant. The key itself is in this answer and is never shown again."""
    view = await call.service.keys.create(
        body.name, body.roles, scopes=body.scopes, expires_seconds=body.expires_seconds
    )
    call.object = view["key_id"]
    return view


@routes.get("/keys", KEYS, s.KeyPage)
async def list_keys(call: Call, query: Paged) -> Any:
    """List the API keys of your tenant, newest first, without their secret part."""
    return await call.service.keys.list(limit=query.limit, cursor=query.cursor).first()


@routes.delete("/keys/{key_id}", KEYS, s.Key)
async def revoke_key(call: Call) -> Any:
    """Revoke an API key. Within a second, it is refused everywhere."""
    return await call.service.keys.revoke(call.path("key_id"))
