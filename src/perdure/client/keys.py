"""API keys: who may use a server, given and taken back by its administrators."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.client import views as v
from perdure.client.http_calls import Call, delete, get, given, post
from perdure.client.operations import AsyncNoun, Noun, Page, listing, operation

PAGE = 100


class KeysCalls:
    """API keys of the caller's tenant."""

    @operation
    def create(
        self,
        name: str,
        roles: Sequence[str],
        *,
        scopes: Sequence[str] = (),
        expires_seconds: float | None = None,
    ) -> Call[v.IssuedKey]:
        """Create a key. Only this answer shows its text."""
        body = {"name": name, "roles": [*roles], "scopes": [*scopes], **given(expires_seconds=expires_seconds)}
        return post("keys", body=body)

    @listing
    def list(self, *, limit: int = PAGE, cursor: str | None = None) -> Call[Page[v.Key]]:
        """The keys, newest first, revoked ones too; never their texts."""
        return get("keys", limit=limit, cursor=cursor)

    @operation
    def revoke(self, key_id: str) -> Call[v.Key]:
        """Revoke a key. Within a second the server refuses it."""
        return delete("keys", key_id, repeatable=True)


class Keys(KeysCalls, Noun):
    __doc__ = KeysCalls.__doc__


class AsyncKeys(KeysCalls, AsyncNoun):
    __doc__ = KeysCalls.__doc__
