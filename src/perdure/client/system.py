"""What a deployment is made of and who may use it: node types, workers, queues, blobs, API keys, the audit."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.client import views as v
from perdure.client.operations import (
    AsyncNoun,
    Call,
    Noun,
    Page,
    delete,
    get,
    given,
    listing,
    operation,
    path_of,
    post,
    read_bytes,
)

PAGE = 100


class SystemCalls:
    """What there is now, and who one is."""

    @operation
    def me(self) -> Call[v.Me]:
        """Who you are here, and what you may do."""
        return get("me")

    @listing
    def node_types(self) -> Call[Page[v.NodeType]]:
        """What a workflow can be made of."""
        return get("node-types")

    @operation
    def node_type(self, name: str) -> Call[v.NodeType]:
        """One node type, with the schemas of its config and output."""
        return get("node-types", name)

    @listing
    def workers(self) -> Call[Page[v.Worker]]:
        """Who executes tasks now."""
        return get("workers")

    @listing
    def queues(self) -> Call[Page[v.Queue]]:
        """Where tasks wait, and how many slots listen there."""
        return get("queues")


class BlobsCalls:
    """Large values, by the hash of their content."""

    @operation
    def get(self, ref: str) -> Call[bytes]:
        """Exactly what was put: `cas://sha256:…`, or `sha256:…`."""
        return Call(method="GET", path=path_of("blobs", ref.removeprefix("cas://")), repeatable=True, read=read_bytes)

    @operation
    def put(self, data: bytes) -> Call[v.BlobPut]:
        """Keep it; the answer says what to call it in a definition."""
        headers = {"Content-Type": "application/octet-stream"}
        return Call(method="POST", path="/blobs", body=data, headers=headers, repeatable=True)


class KeysCalls:
    """API keys of one's tenant."""

    @operation
    def create(
        self,
        name: str,
        roles: Sequence[str],
        *,
        scopes: Sequence[str] = (),
        expires_seconds: float | None = None,
    ) -> Call[v.IssuedKey]:
        """Make a key. The answer shows it, once."""
        body = {"name": name, "roles": [*roles], "scopes": [*scopes], **given(expires_seconds=expires_seconds)}
        return post("keys", body=body)

    @listing
    def list(self, *, limit: int = PAGE, cursor: str | None = None) -> Call[Page[v.Key]]:
        """Newest first, revoked ones too; never the keys themselves."""
        return get("keys", limit=limit, cursor=cursor)

    @operation
    def revoke(self, key_id: str) -> Call[v.Key]:
        """From within a second on it is good for nothing."""
        return delete("keys", key_id, repeatable=True)


class AuditCalls:
    """Who did what."""

    @listing
    def list(
        self,
        *,
        principal: str | None = None,
        action: str | None = None,
        object_: str | None = None,
        since: float | str | None = None,
        until: float | str | None = None,
        limit: int = PAGE,
        cursor: str | None = None,
    ) -> Call[Page[v.AuditEntry]]:
        """Newest first."""
        more = {"since": since, "until": until, "limit": limit, "cursor": cursor}
        return get("audit", principal=principal, action=action, object=object_, **more)

    @operation
    def verify(self) -> Call[v.AuditVerdict]:
        """Whether the audit is as it was written."""
        return get("audit", "verify")


class System(SystemCalls, Noun):
    __doc__ = SystemCalls.__doc__


class AsyncSystem(SystemCalls, AsyncNoun):
    __doc__ = SystemCalls.__doc__


class Blobs(BlobsCalls, Noun):
    __doc__ = BlobsCalls.__doc__


class AsyncBlobs(BlobsCalls, AsyncNoun):
    __doc__ = BlobsCalls.__doc__


class Keys(KeysCalls, Noun):
    __doc__ = KeysCalls.__doc__


class AsyncKeys(KeysCalls, AsyncNoun):
    __doc__ = KeysCalls.__doc__


class Audit(AuditCalls, Noun):
    __doc__ = AuditCalls.__doc__


class AsyncAudit(AuditCalls, AsyncNoun):
    __doc__ = AuditCalls.__doc__
