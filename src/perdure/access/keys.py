"""API keys: `perdure_<id>_<secret>`. How they are made, taken apart and compared; only the SHA-256 of the secret is
kept.

The id is public and finds the row; the secret has 256 random bits. Whether an id exists, is revoked or has another
secret is not told by the answer, nor by the work done for it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import re

import msgspec

from perdure.access.principal import is_tenant
from perdure.access.roles import check_roles
from perdure.archive import Archive
from perdure.archive.credentials import ApiKey
from perdure.clock import Clock, new_key
from perdure.errors import PerdureError
from perdure.plain_text import find_principal_trouble

PREFIX = "perdure_"
_ID_BYTES = 8
_SECRET_BYTES = 32
_KEY = re.compile(r"perdure_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")


class InvalidKey(PerdureError):
    """What was asked for cannot be a key: a name, a tenant or an expiry does not fit."""

    code = "invalid_key"
    status = 422


class IssuedKey(msgspec.Struct, frozen=True):
    key: ApiKey
    text: str
    """The key itself. It is shown once and never again."""

    def __repr__(self) -> str:
        return f"IssuedKey({self.key.prefix})"


def nobody(key_id: str) -> ApiKey:
    """A stand-in for a key that does not exist, so that the same work is done for it. No secret has this hash."""
    return ApiKey(
        key_id=key_id,
        tenant="",
        name="",
        secret_hash=bytes(32),
        roles=(),
        created_by="",
        created_at=0.0,
        revoked_at=0.0,
    )


class PresentedKey(msgspec.Struct, frozen=True):
    key_id: str
    secret_hash: bytes


async def issue_key(
    archive: Archive,
    clock: Clock,
    *,
    tenant: str,
    name: str,
    roles: tuple[str, ...],
    scopes: tuple[str, ...] = (),
    expires_at: float | None = None,
    by: str,
) -> IssuedKey:
    """Make and store a new key. `name` is the principal: it stands in journal and audit for what the key does."""
    check_roles(roles, scopes)
    problems = []
    if not is_tenant(tenant):
        problems.append(f"tenant {tenant[:80]!r}: expected letters, digits, '.', '_' and '-', at most 64")
    if trouble := find_principal_trouble(name):
        problems.append(f"name {name[:80]!a}: {trouble}")
    now = clock.now()
    if expires_at is not None and expires_at <= now:
        problems.append("its expiry lies in the past")
    if problems:
        raise InvalidKey("; ".join(problems))
    key_id = new_key(_ID_BYTES).hex()
    secret = base64.urlsafe_b64encode(new_key(_SECRET_BYTES)).decode().rstrip("=")
    key = ApiKey(
        key_id=key_id,
        tenant=tenant,
        name=name,
        secret_hash=_hash(secret),
        roles=tuple(roles),
        scopes=tuple(scopes),
        created_by=by,
        created_at=now,
        expires_at=expires_at,
    )
    await archive.create_key(key)
    return IssuedKey(key, f"{PREFIX}{key_id}_{secret}")


def read_key(text: str) -> PresentedKey | None:
    """The key in a caller's text, or None if it has not the form of one."""
    match = _KEY.fullmatch(text)
    return None if match is None else PresentedKey(match[1], _hash(match[2]))


def is_valid(key: ApiKey, presented: PresentedKey, now: float) -> bool:
    """Whether the presented key is right and in force. Every question is asked, whatever the answers before it."""
    return hmac.compare_digest(key.secret_hash, presented.secret_hash) & is_in_force(key, now)


def is_in_force(key: ApiKey, now: float) -> bool:
    """Whether a key is neither revoked nor expired."""
    return (key.revoked_at is None) & (now < (math.inf if key.expires_at is None else key.expires_at))


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
