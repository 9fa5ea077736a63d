"""What opens a door: API keys, links to a decision, sessions of browsers. Of each only a hash is stored."""

from __future__ import annotations

from typing import Literal

import msgspec


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """An API key, without its secret. It is valid while it is neither revoked nor expired."""

    key_id: str
    tenant: str
    name: str
    secret_hash: bytes
    """SHA-256 of the secret: 256 random bits need no salt."""
    roles: tuple[str, ...]
    scopes: tuple[str, ...] = ()
    """Permissions the key is limited to; empty: all that its roles have."""
    created_by: str
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    last_used_at: float | None = None
    """When the key was last used, to the minute."""

    @property
    def prefix(self) -> str:
        """The part of the key that may be shown."""
        return f"perdure_{self.key_id}"


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A single-use link to one decision of one approver about one approval."""

    token_hash: bytes
    tenant: str
    approval_id: str
    run_id: str
    decision: str
    approver: str
    created_at: float
    expires_at: float
    consumed_at: float | None = None


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """What a browser has instead of a key or token, without its secret. It is gone when it is ended."""

    token_hash: bytes
    """SHA-256 of what the cookie holds: 256 random bits."""
    session_id: str
    tenant: str
    owner: str
    """The credential it was opened with: the id of a key, or the subject of a token."""
    kind: Literal["key", "jwt"]
    name: str
    key_id: str = ""
    roles: tuple[str, ...] = ()
    """What the token gave; a key is looked up again and has its own."""
    agent: str = ""
    """The browser's own name for itself."""
    created_at: float
    seen_at: float
    """When it was last used, to the minute."""
    expires_at: float
