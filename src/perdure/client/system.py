"""What a deployment consists of, and who may use it: node types, workers, queues, blobs, API keys, the audit."""

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
    """The deployment as it is now, and the caller's own identity."""

    @operation
    def me(self) -> Call[v.Me]:
        """Your own identity on this server, and what it may do."""
        return get("me")

    @listing
    def node_types(self) -> Call[Page[v.NodeType]]:
        """The node types that workflows can use."""
        return get("node-types")

    @operation
    def node_type(self, name: str) -> Call[v.NodeType]:
        """One node type, with the schemas of its config and output."""
        return get("node-types", name)

    @listing
    def workers(self) -> Call[Page[v.Worker]]:
        """The workers that execute tasks now."""
        return get("workers")

    @listing
    def queues(self) -> Call[Page[v.Queue]]:
        """The queues in which tasks wait, and how many slots listen to each."""
        return get("queues")


class BlobsCalls:
    """Large values, by the hash of their content."""

    @operation
    def get(self, ref: str) -> Call[bytes]:
        """The bytes exactly as they were put. `ref` is `cas://sha256:…` or `sha256:…`."""
        return Call(method="GET", path=path_of("blobs", ref.removeprefix("cas://")), repeatable=True, read=read_bytes)

    @operation
    def put(self, data: bytes) -> Call[v.BlobPut]:
        """Store the bytes; the answer has the reference by which a definition names them."""
        headers = {"Content-Type": "application/octet-stream"}
        return Call(method="POST", path="/blobs", body=data, headers=headers, repeatable=True)


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


class AuditCalls:
    """The audit: who did what."""

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
        """The audit entries, newest first."""
        more = {"since": since, "until": until, "limit": limit, "cursor": cursor}
        return get("audit", principal=principal, action=action, object=object_, **more)

    @operation
    def verify(self) -> Call[v.AuditVerdict]:
        """Whether the audit is unchanged since it was written."""
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
