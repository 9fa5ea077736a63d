"""The trace of who did what, and the proof that it was not changed.

It owns what an entry says; the chain itself is the archive's. An entry is written before the caller is answered: if it
cannot be written, the caller hears that, and not that all is well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from perdure.access.principal import Principal
from perdure.archive import Archive
from perdure.archive.audit_chain import NO_HASH, AuditEntry, AuditHead, audit_hash, audit_payload
from perdure.clock import Clock
from perdure.plain_text import clean_line

DETAIL_BYTES = 16_384
"""The longest value that is kept whole, in bytes; a longer one is kept as its hash."""
TARGET_CHARACTERS = 500
_PAGE = 1000


class AuditVerdict(msgspec.Struct, frozen=True, kw_only=True):
    tenant: str
    entries: int
    """How many entries were found to be right, from the first on."""
    head: AuditHead | None
    """The last right entry. Kept elsewhere, it also proves that the whole chain was not written anew."""
    broken_seq: int | None = None
    """The first number that is not right, or None."""
    problem: str = ""


class Audit:
    def __init__(self, archive: Archive, clock: Clock) -> None:
        self._archive = archive
        self._clock = clock

    async def record(
        self,
        principal: Principal,
        action: str,
        target: str,
        *,
        before: object = None,
        after: object = None,
        request_id: str = "",
    ) -> None:
        """Add an entry. `before` and `after` are JSON data without secrets."""
        detail: dict[str, object] = {"kind": principal.kind}
        if principal.key_id:
            detail["key_id"] = principal.key_id
        detail |= {name: _short(value) for name, value in (("before", before), ("after", after)) if value is not None}
        entry = AuditEntry(
            tenant=principal.tenant,
            at=self._clock.now(),
            principal=principal.name,
            action=action,
            object=_line(target),
            detail=msgspec.json.encode(detail),
            request_id=_line(request_id),
        )
        await self._archive.append_audit([entry])


def _line(text: str) -> str:
    """A text that every database can hold and one line can show, since ids come from requests."""
    return clean_line(text[:TARGET_CHARACTERS])


def _short(value: object) -> object:
    data = msgspec.json.encode(value)
    if len(data) <= DETAIL_BYTES:
        return value
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


async def verify_audit(archive: Archive, tenant: str, known: Mapping[int, bytes] | None = None) -> AuditVerdict:
    """Walk the chain of a tenant from its first entry. `known` are hashes noted earlier, by number."""
    known = known or {}
    end = await archive.find_audit_head(tenant)  # first: entries that are added meanwhile come after it
    seq, last = 0, NO_HASH
    head: AuditHead | None = None

    def broken(number: int, problem: str) -> AuditVerdict:
        return AuditVerdict(tenant=tenant, entries=seq, head=head, broken_seq=number, problem=problem)

    while records := await archive.read_audit(tenant, seq, _PAGE):
        for record in records:
            if record.seq != seq + 1:
                return broken(seq + 1, f"entry {seq + 1} is missing")
            if record.previous_hash != last:
                return broken(record.seq, f"entry {record.seq} does not follow from the one before it")
            if record.hash != audit_hash(last, record.seq, audit_payload(record.entry)):
                return broken(record.seq, f"entry {record.seq} was changed: its content has another hash")
            if known.get(record.seq, record.hash) != record.hash:
                return broken(
                    record.seq, f"entry {record.seq} is not the one that was there: the chain was written anew"
                )
            seq, last = record.seq, record.hash
            head = AuditHead(seq, last)
    if end is not None and seq < end.seq:
        return broken(seq + 1, f"entry {seq + 1} is missing: {end.seq} were written")
    if end is None and seq:
        return broken(seq, "the end of the chain is not noted")
    if missing := [number for number in known if number > seq]:
        return broken(seq + 1, f"entry {seq + 1} is missing: entry {max(missing)} was known")
    return AuditVerdict(tenant=tenant, entries=seq, head=head)
