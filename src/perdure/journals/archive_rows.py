"""Rows of the archive as the structs of its port, and back, for every adapter that has SQL.

Free text of people is bytes in every database, because bytes can hold what text may not; lists are JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import msgspec

from perdure.archive.aliases import Alias, Share, VersionNote
from perdure.archive.audit_chain import AuditEntry, AuditFilter, AuditRecord
from perdure.archive.credentials import ApiKey, Link, Session
from perdure.archive.kept_rows import AssetRow, SavedView
from perdure.archive.notifications import Callback, Notification
from perdure.archive.stored_lines import LogLine, StoredLine
from perdure.errors import NotFound, Refused
from perdure.journals.rows import Row, as_bytes, as_text, decode_cursor, named
from perdure.records import AgentEntry

_shares = msgspec.json.Decoder(tuple[tuple[int, float], ...]).decode
_words = msgspec.json.Decoder(tuple[str, ...]).decode

link = named(Link)
callback = named(Callback)
saved_view = named(SavedView)
asset = named(AssetRow)
entry = named(AgentEntry)


def struct_values(struct: msgspec.Struct) -> dict[str, object]:
    """The fields of a struct as parameters, by name."""
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


# -- workflows


def note(row: Row) -> VersionNote:
    return VersionNote(
        tenant=row[0], workflow=row[1], version=row[2], by=row[3], at=row[4], reason=as_text(bytes(row[5]))
    )


def note_values(note: VersionNote) -> dict[str, object]:
    return {
        "tenant": note.tenant,
        "workflow": note.workflow,
        "version": note.version,
        "noted_by": note.by,
        "noted_at": note.at,
        "reason": as_bytes(note.reason),
    }


def alias(row: Row) -> Alias:
    return Alias(
        tenant=row[0],
        workflow=row[1],
        alias=row[2],
        shares=tuple(Share(*share) for share in _shares(row[3])),
        revision=row[4],
        by=row[5],
        at=row[6],
        reason=as_text(bytes(row[7])),
    )


def alias_values(alias: Alias) -> dict[str, object]:
    return {
        "tenant": alias.tenant,
        "workflow": alias.workflow,
        "alias": alias.alias,
        "shares": msgspec.json.encode([(share.version, share.percent) for share in alias.shares]).decode(),
        "moved_by": alias.by,
        "moved_at": alias.at,
        "reason": as_bytes(alias.reason),
    }


def refuse_missing(workflow: str, version: int | None) -> NoReturn:
    raise NotFound(
        f"workflow {workflow} does not exist" if version is None else f"workflow {workflow} has no version {version}"
    )


def refuse_moved(alias: Alias, expected: int | None, revision: int) -> NoReturn:
    raise Refused(
        f"alias {alias.alias} of workflow {alias.workflow} is at revision {revision}, not {expected}: another caller moved "
        "it; look at it again, then decide again",
        code="alias_moved",
    )


def refuse_in_use(workflow: str, version: int | None, by: str) -> NoReturn:
    what = workflow if version is None else f"{workflow}@{version}"
    raise Refused(f"workflow {what} is in use by {by}", code="workflow_in_use")


def runs_in_use(count: int) -> str:
    return f"{count} run{'s' * (count != 1)} that {'has' if count == 1 else 'have'} not ended; wait for them or cancel them"


def alias_in_use(name: str) -> str:
    return f"alias {name}; move or delete the alias first"


# -- keys


def key(row: Row) -> ApiKey:
    return ApiKey(
        key_id=row[0],
        tenant=row[1],
        name=row[2],
        secret_hash=bytes(row[3]),
        roles=_words(row[4]),
        scopes=_words(row[5]),
        created_by=row[6],
        created_at=row[7],
        expires_at=row[8],
        revoked_at=row[9],
        last_used_at=row[10],
    )


def key_values(key: ApiKey) -> dict[str, object]:
    lists = {"roles": key.roles, "scopes": key.scopes}
    return struct_values(key) | {name: msgspec.json.encode(words).decode() for name, words in lists.items()}


# -- sessions


def session(row: Row) -> Session:
    return Session(
        token_hash=bytes(row[0]),
        session_id=row[1],
        tenant=row[2],
        owner=row[3],
        kind=row[4],
        name=row[5],
        key_id=row[6],
        roles=_words(row[7]),
        agent=as_text(bytes(row[8])),
        created_at=row[9],
        seen_at=row[10],
        expires_at=row[11],
    )


def session_values(session: Session) -> dict[str, object]:
    roles = msgspec.json.encode(session.roles).decode()
    return struct_values(session) | {"roles": roles, "agent": as_bytes(session.agent)}


# -- notifications


def notification(row: Row) -> Notification:
    return Notification(
        approval_id=row[0],
        tenant=row[1],
        state=row[2],
        attempts=row[3],
        created_at=row[4],
        next_at=row[5],
        delivered_at=row[6],
        last_error=as_text(bytes(row[7])),
    )


def notification_values(notification: Notification) -> dict[str, object]:
    names = ("approval_id", "state", "attempts", "next_at", "delivered_at")
    return {name: getattr(notification, name) for name in names} | {"last_error": as_bytes(notification.last_error)}


# -- audit


def audit(row: Row) -> AuditRecord:
    return AuditRecord(
        seq=row[0],
        previous_hash=bytes(row[1]),
        hash=bytes(row[2]),
        entry=AuditEntry(
            tenant=row[3],
            at=row[4],
            principal=row[5],
            action=row[6],
            object=row[7],
            detail=bytes(row[8]),
            request_id=row[9],
        ),
    )


def audit_filter(tenant: str, where: AuditFilter, limit: int, cursor: str | None) -> dict[str, object]:
    place = decode_cursor(cursor, tuple[float, int])
    return struct_values(where) | {
        "tenant": tenant,
        "cursor_at": place and place[0],
        "cursor_seq": place and place[1],
        "limit": max(limit, 0) + 1,
    }


# -- logs


def line(row: Row) -> StoredLine:
    return StoredLine(
        row[0],
        LogLine(
            tenant=row[1],
            run_id=row[2],
            node=row[3],
            visit=row[4],
            attempt=row[5],
            at=row[6],
            level=row[7],
            message=bytes(row[8]).decode(),
        ),
    )


def lines_by_run(lines: Sequence[LogLine]) -> dict[tuple[str, str], list[LogLine]]:
    """Log lines grouped by run and tenant, sorted; the lines of each group in their order."""
    found: dict[tuple[str, str], list[LogLine]] = {}
    for one in lines:
        found.setdefault((one.run_id, one.tenant), []).append(one)
    return dict(sorted(found.items()))
