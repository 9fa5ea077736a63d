"""Who asks. A principal comes from a credential alone: nothing that a request says beside it changes the tenant or the name."""

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
    """What stands in the journal and in the audit as the one who did it."""
    kind: Literal["local", "key", "jwt", "link", "webhook"]
    roles: tuple[str, ...]
    scopes: tuple[str, ...] = ()
    key_id: str = ""
    permissions: frozenset[Permission] = frozenset()

    def may(self, permission: Permission) -> bool:
        return permission in self.permissions

    def require(self, permission: Permission) -> None:
        if permission not in self.permissions:
            raise Forbidden(
                f"{self.name} may not do this: it needs the permission {permission}, "
                f"which {_given(self)} does not give; ask an administrator of tenant {self.tenant}"
            )


def make_principal(
    *,
    tenant: str,
    name: str,
    kind: Literal["local", "key", "jwt", "link", "webhook"],
    roles: tuple[str, ...],
    scopes: tuple[str, ...] = (),
    key_id: str = "",
) -> Principal:
    """With the permissions that follow from roles and scopes."""
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
"""Whoever reaches an open server, which listens on the loopback interface only."""


def is_tenant(text: object) -> bool:
    return isinstance(text, str) and _TENANT.fullmatch(text) is not None


def is_name(text: object) -> bool:
    """A name that can be stored and shown, in which everything is to be seen, and which means nobody else."""
    return isinstance(text, str) and find_principal_trouble(text) is None


def _given(principal: Principal) -> str:
    roles = f"role {', '.join(principal.roles)}" if principal.roles else "no role"
    return f"{roles} with scopes {', '.join(principal.scopes)}" if principal.scopes else roles
