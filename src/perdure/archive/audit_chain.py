"""Who did what: entries of the audit, each chained to the one before by its hash, in every adapter in the same way."""

from __future__ import annotations

import hashlib

import msgspec


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Who did what to which object. `detail` is a JSON object, by custom with `before` and `after`; never a secret."""

    tenant: str
    at: float
    principal: str
    action: str
    object: str
    detail: bytes = b"{}"
    request_id: str = ""


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An entry in the chain of its tenant."""

    seq: int
    """The entry's number in its chain: 1, 2, 3, … without a gap."""
    previous_hash: bytes
    hash: bytes
    entry: AuditEntry


class AuditHead(msgspec.Struct, frozen=True):
    """The end of a chain. Kept elsewhere, it proves that nothing before it was changed."""

    seq: int
    hash: bytes


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on audit entries; every one that is given must hold. `since` is inclusive and `until` exclusive."""

    principal: str | None = None
    action: str | None = None
    object: str | None = None
    since: float | None = None
    until: float | None = None


EVERY_ENTRY = AuditFilter()
NO_HASH = bytes(32)
"""The hash that the first entry of a chain names as the one before it."""


def audit_payload(entry: AuditEntry) -> bytes:
    """The one encoding of an entry that is hashed: its fields in order, so that no two entries share one."""
    return msgspec.json.encode(
        [
            entry.tenant,
            repr(float(entry.at)),
            entry.principal,
            entry.action,
            entry.object,
            entry.detail,
            entry.request_id,
        ]
    )


def audit_hash(previous: bytes, seq: int, payload: bytes) -> bytes:
    """SHA-256 of the previous hash, the number as eight bytes, and the payload. PostgreSQL computes the same."""
    return hashlib.sha256(previous + seq.to_bytes(8, "big") + payload).digest()
