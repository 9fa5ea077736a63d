"""Who asks. A principal comes from a credential alone: nothing else in a request changes the tenant or the name."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from perdure.access.errors import Forbidden
from perdure.access.roles import Permission, Role, permissions_of
from perdure.plain_text import find_principal_trouble

DEFAULT_TENANT = "default"

_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    tenant: str
    name: str
    """The name that stands in the journal and in the audit for what the principal did."""
    kind: Literal["local", "key", "jwt", "link", "webhook"]
    roles: tuple[str, ...]
    scopes: tuple[str, ...] = ()
    key_id: str = ""
    session_id: str = ""
    """The session the request came with; empty: it had the credential itself."""
    permissions: frozenset[Permission] = frozenset()

    def may(self, permission: Permission) -> bool:
        return permission in self.permissions

    def require(self, permission: Permission) -> None:
        if permission not in self.permissions:
            raise Forbidden(
                f"{self.name} may not do this: it needs the permission {permission}, "
                f"which {_given(self)} does not give; ask an administrator of tenant {self.tenant}"
            )


class Identity(msgspec.Struct, frozen=True):
    """Who has a credential, and until when; None: as long as it is not revoked."""

    principal: Principal
    expires_at: float | None


def make_principal(
    *,
    tenant: str,
    name: str,
    kind: Literal["local", "key", "jwt", "link", "webhook"],
    roles: tuple[str, ...],
    scopes: tuple[str, ...] = (),
    key_id: str = "",
) -> Principal:
    """A principal with the permissions that follow from roles and scopes."""
    return Principal(
        tenant=tenant,
        name=name,
        kind=kind,
        roles=roles,
        scopes=scopes,
        key_id=key_id,
        permissions=permissions_of(roles, scopes),
    )


LOCAL = make_principal(tenant=DEFAULT_TENANT, name="local", kind="local", roles=(Role.ADMIN,))
"""The principal of every caller of an open server, which listens on the loopback interface only."""


def is_tenant(text: object) -> bool:
    return isinstance(text, str) and _TENANT.fullmatch(text) is not None


def is_name(text: object) -> bool:
    """Whether a text is a name that can be stored and shown, is visible in full, and means no other principal."""
    return isinstance(text, str) and find_principal_trouble(text) is None


def _given(principal: Principal) -> str:
    roles = f"role {', '.join(principal.roles)}" if principal.roles else "no role"
    return f"{roles} with scopes {', '.join(principal.scopes)}" if principal.scopes else roles
