"""API keys: what administrators of a tenant give and take back. It must not know HTTP.

A new key may do no more than the principal that creates it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perdure.access import Audit, Forbidden, check_roles, issue_key, permissions_of
from perdure.archive.credentials import ApiKey
from perdure.service.pages import listing
from perdure.service.views import View, page_view

if TYPE_CHECKING:
    from perdure.service.tenancy import Tenancy


class Keys:
    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy

    async def create(
        self, name: str, roles: Sequence[str], *, scopes: Sequence[str] = (), expires_seconds: float | None = None
    ) -> View:
        """Create a key of this tenant. Its text is shown once and never again."""
        tenancy = self._tenancy
        check_roles(roles, scopes)
        more = permissions_of(roles, scopes) - tenancy.principal.permissions
        if more:
            raise Forbidden(
                f"{tenancy.by} cannot give a key what they do not have themselves: {', '.join(sorted(more))}"
            )
        now = tenancy.engine.clock.now()
        issued = await issue_key(
            tenancy.archive,
            tenancy.engine.clock,
            tenant=tenancy.tenant,
            name=name,
            roles=tuple(roles),
            scopes=tuple(scopes),
            expires_at=None if expires_seconds is None else now + expires_seconds,
            by=tenancy.by,
        )
        view = _key_view(issued.key)
        await self._record("key.created", view)
        return {**view, "key": issued.text}

    @listing
    async def list(self, *, limit: int = 100, cursor: str | None = None) -> View:
        """The keys of this tenant, newest first, revoked ones too; never their texts."""
        return page_view(
            await self._tenancy.archive.list_keys(self._tenancy.tenant, limit=limit, cursor=cursor), _key_view
        )

    async def revoke(self, key_id: str) -> View:
        """Revoke a key. Within a second every process refuses it."""
        now = self._tenancy.engine.clock.now()
        view = _key_view(await self._tenancy.archive.revoke_key(self._tenancy.tenant, key_id, now))
        await self._record("key.revoked", view)
        return view

    async def _record(self, action: str, key: View) -> None:
        """Write into the audit what the owner of the database does; a server records every call by itself."""
        if self._tenancy.owner:
            audit = Audit(self._tenancy.archive, self._tenancy.engine.clock)
            await audit.record(self._tenancy.principal, action, f"key {key['key_id']}", after=key)


def _key_view(key: ApiKey) -> View:
    return {
        "key_id": key.key_id,
        "name": key.name,
        "prefix": key.prefix,
        "roles": list(key.roles),
        "scopes": list(key.scopes),
        "created_by": key.created_by,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
    }
