"""The archive in the journal's SQLite file. The rules stand in `perdure.archive`; what takes several statements stands here.

It writes through the journal's one writing thread, inside its transactions, and reads through its readers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from perdure.archive import (
    EVERY_ENTRY,
    LOG_LINES,
    NO_HASH,
    PRUNE_ROWS,
    Alias,
    ApiKey,
    AuditEntry,
    AuditFilter,
    AuditHead,
    AuditRecord,
    Callback,
    Link,
    LogLine,
    Notification,
    StoredLine,
    VersionNote,
    audit_hash,
    audit_payload,
    check_alias,
    cut_message,
)
from perdure.errors import NotFound
from perdure.journal import Page, RunRecord
from perdure.journals import archive_rows as rows
from perdure.journals.rows import decode_cursor, page, positional, run_record
from perdure.journals.sqlite.readers import Readers
from perdure.journals.sqlite.rows import as_json
from perdure.journals.sqlite.statements import query, text
from perdure.journals.sqlite.writer import Writer

Item = TypeVar("Item")
Parameters = Mapping[str, object]


class SqliteArchive:
    """`writing` gives the journal's writer, or says why nothing may be written."""

    def __init__(self, readers: Readers, writing: Callable[[], Writer]) -> None:
        self._readers = readers
        self._writing = writing

    # -- workflow versions

    async def note_version(self, note: VersionNote) -> None:
        await self._write("note_version", rows.note_values(note))

    async def find_notes(self, tenant: str, workflow: str, versions: Collection[int]) -> Mapping[int, VersionNote]:
        parameters = {"tenant": tenant, "workflow": workflow, "versions": as_json(versions)}
        return {note.version: note for note in await self._readers.fetch("find_notes", parameters, rows.note)}

    async def count_users(self, tenant: str, workflow: str, version: int | None = None) -> int:
        parameters = {"tenant": tenant, "workflow": workflow, "version": version}
        return int((await self._readers.fetch("count_users", parameters, _first))[0])

    async def list_users(
        self, tenant: str, workflow: str, version: int | None = None, *, limit: int = 100, cursor: str | None = None
    ) -> Page[RunRecord]:
        place = decode_cursor(cursor, tuple[int, str])
        parameters = {
            "tenant": tenant,
            "workflow": workflow,
            "version": version,
            "after": place[1] if place and version is not None else None,
            "cursor_version": place[0] if place and version is None else None,
            "cursor_run": place[1] if place and version is None else None,
            "limit": max(limit, 0) + 1,
        }
        found = await self._readers.fetch("list_users", parameters, lambda row: (run_record(row), (row[6], row[0])))
        return page(found, limit)

    async def delete_workflow(self, tenant: str, workflow: str, version: int | None = None) -> int:
        parameters = {"tenant": tenant, "workflow": workflow, "version": version}

        def delete(connection: sqlite3.Connection) -> int:
            if not _rows(connection, "find_versions", parameters):
                rows.refuse_missing(workflow, version)
            if users := _rows(connection, "count_users", parameters)[0][0]:
                rows.refuse_in_use(workflow, version, rows.runs_in_use(users))
            if version is None:
                _rows(connection, "delete_aliases", parameters)
                _rows(connection, "delete_alias_moves", parameters)
            elif aliases := _rows(connection, "find_alias_of_version", parameters):
                rows.refuse_in_use(workflow, version, rows.alias_in_use(aliases[0][0]))
            gone = [row[0] for row in _rows(connection, "delete_workflow", parameters)]
            _rows(connection, "delete_notes", parameters)
            _rows(connection, "note_deleted", parameters | {"last_version": max(gone)})
            return len(gone)

        return await self._writing().run(delete)

    # -- aliases

    async def put_alias(self, alias: Alias, *, expected_revision: int | None = None) -> Alias:
        check_alias(alias)
        parameters = rows.alias_values(alias)
        versions = [share.version for share in alias.shares]

        def put(connection: sqlite3.Connection) -> Alias:
            wanted = parameters | {"versions": as_json(versions)}
            there = {row[0] for row in _rows(connection, "find_versions", wanted)}
            if missing := [version for version in versions if version not in there]:
                rows.refuse_missing(alias.workflow, missing[0])
            found = _rows(connection, "find_alias_row", parameters)
            last, present = found[0] if found else (0, False)
            if expected_revision not in (None, last if present else 0):
                rows.refuse_moved(alias, expected_revision, last if present else 0)
            moved = parameters | {"revision": last + 1}
            _rows(connection, "put_alias_move", moved)
            _rows(connection, "put_alias", moved)
            return msgspec.structs.replace(alias, revision=last + 1)

        return await self._writing().run(put)

    async def find_alias(self, tenant: str, workflow: str, alias: str) -> Alias | None:
        parameters = {"tenant": tenant, "workflow": workflow, "alias": alias}
        return await self._find("find_alias", parameters, rows.alias)

    async def list_aliases(
        self, tenant: str, workflow: str, *, limit: int = 100, cursor: str | None = None
    ) -> Page[Alias]:
        place = decode_cursor(cursor, tuple[str])
        parameters = {
            "tenant": tenant,
            "workflow": workflow,
            "after": place and place[0],
            "limit": max(limit, 0) + 1,
        }
        found = await self._readers.fetch("list_aliases", parameters, lambda row: (rows.alias(row), (row[2],)))
        return page(found, limit)

    async def list_alias_moves(
        self, tenant: str, workflow: str, alias: str, *, limit: int = 100, cursor: str | None = None
    ) -> Page[Alias]:
        place = decode_cursor(cursor, tuple[int])
        parameters = {
            "tenant": tenant,
            "workflow": workflow,
            "alias": alias,
            "before": place and place[0],
            "limit": max(limit, 0) + 1,
        }
        found = await self._readers.fetch("list_alias_moves", parameters, lambda row: (rows.alias(row), (row[4],)))
        return page(found, limit)

    async def delete_alias(self, tenant: str, workflow: str, alias: str) -> None:
        if not await self._write("delete_alias", {"tenant": tenant, "workflow": workflow, "alias": alias}):
            raise NotFound(f"workflow {workflow} has no alias {alias}")

    # -- API keys

    async def create_key(self, key: ApiKey) -> None:
        await self._write("create_key", rows.key_values(key))

    async def find_key(self, key_id: str) -> ApiKey | None:
        return await self._find("find_key", {"key_id": key_id}, rows.key)

    async def list_keys(self, tenant: str, *, limit: int = 100, cursor: str | None = None) -> Page[ApiKey]:
        place = decode_cursor(cursor, tuple[float, str])
        parameters = {
            "tenant": tenant,
            "cursor_at": place and place[0],
            "cursor_key": place and place[1],
            "limit": max(limit, 0) + 1,
        }
        found = await self._readers.fetch("list_keys", parameters, lambda row: (rows.key(row), (row[7], row[0])))
        return page(found, limit)

    async def revoke_key(self, tenant: str, key_id: str, at: float) -> ApiKey:
        found = await self._write("revoke_key", {"tenant": tenant, "key_id": key_id, "revoked_at": at})
        if not found:
            raise NotFound(f"key {key_id} does not exist")
        return rows.key(found[0])

    async def touch_keys(self, used: Mapping[str, float]) -> None:
        uses = [{"key_id": key_id, "used_at": at} for key_id, at in used.items()]
        await self._writing().run(lambda connection: connection.executemany(text("touch_keys"), uses).rowcount)

    # -- links

    async def create_link(self, link: Link) -> None:
        await self._write("create_link", rows.struct_values(link))

    async def find_link(self, token_hash: bytes) -> Link | None:
        return await self._find("find_link", {"token_hash": token_hash}, rows.link)

    async def consume_link(self, token_hash: bytes, *, approval_id: str, decision: str, now: float) -> Link | None:
        parameters = {"token_hash": token_hash, "approval_id": approval_id, "decision": decision, "now": now}
        found = await self._write("consume_link", parameters)
        return rows.link(found[0]) if found else None

    async def release_link(self, token_hash: bytes, consumed_at: float) -> None:
        await self._write("release_link", {"token_hash": token_hash, "consumed_at": consumed_at})

    # -- notifications

    async def claim_notifications(self, now: float, until: float, limit: int = 100) -> list[Notification]:
        found = await self._write("claim_notifications", {"now": now, "until": until, "limit": max(limit, 0)})
        return [rows.notification(row) for row in found]

    async def settle_notification(self, notification: Notification) -> bool:
        return bool(await self._write("settle_notification", rows.notification_values(notification)))

    async def find_notification(self, tenant: str, approval_id: str) -> Notification | None:
        parameters = {"tenant": tenant, "approval_id": approval_id}
        return await self._find("find_notification", parameters, rows.notification)

    async def keep_callback(self, callback: Callback) -> Callback | None:
        if await self._write("keep_callback", rows.struct_values(callback)):
            return None
        return await self._find("find_callback", {"callback_hash": callback.callback_hash}, rows.callback)

    # -- audit

    async def append_audit(self, entries: Sequence[AuditEntry]) -> None:
        def append(connection: sqlite3.Connection) -> None:
            for entry in entries:
                found = _rows(connection, "find_audit_head", {"tenant": entry.tenant})
                seq, previous = found[0] if found else (0, NO_HASH)
                digest = audit_hash(previous, seq + 1, audit_payload(entry))
                values = (entry.at, entry.principal, entry.action, entry.object, entry.detail, entry.request_id)
                connection.execute(text("append_audit"), (entry.tenant, seq + 1, *values, previous, digest))
                connection.execute(text("append_audit_head"), (entry.tenant, seq + 1, digest))

        await self._writing().run(append)

    async def read_audit(self, tenant: str, after: int = 0, limit: int = 1000) -> list[AuditRecord]:
        parameters = {"tenant": tenant, "after": after, "limit": max(limit, 0)}
        return await self._readers.fetch("read_audit", parameters, rows.audit)

    async def find_audit_head(self, tenant: str) -> AuditHead | None:
        return await self._find("find_audit_head", {"tenant": tenant}, positional(AuditHead))

    async def list_audit(
        self, tenant: str, where: AuditFilter = EVERY_ENTRY, *, limit: int = 100, cursor: str | None = None
    ) -> Page[AuditRecord]:
        parameters = rows.audit_filter(tenant, where, limit, cursor)
        found = await self._readers.fetch("list_audit", parameters, lambda row: (rows.audit(row), (row[4], row[0])))
        return page(found, limit)

    # -- logs

    async def append_logs(self, lines: Sequence[LogLine]) -> None:
        groups = rows.lines_by_run(lines)

        def append(connection: sqlite3.Connection) -> None:
            for (run_id, tenant), group in groups.items():
                found = _rows(connection, "find_log_head", {"run_id": run_id, "tenant": tenant})
                if not found:
                    continue  # no such run in this tenant
                last = found[0][0]
                new = [_log_row(last + number, line) for number, line in enumerate(group[-LOG_LINES:], 1)]
                connection.executemany(text("append_logs"), new)
                last += len(new)
                connection.execute(text("append_log_head"), (run_id, last))
                _rows(connection, "cut_logs", {"run_id": run_id, "position": last - LOG_LINES})

        await self._writing().run(append)

    async def read_logs(
        self, tenant: str, run_id: str, *, node: str | None = None, after: int = 0, limit: int = 1000
    ) -> list[StoredLine]:
        parameters = {"tenant": tenant, "run_id": run_id, "node": node, "after": after, "limit": max(limit, 0)}
        return await self._readers.fetch("read_logs", parameters, rows.line)

    # -- housekeeping

    async def prune_runs(self, ended_before: float, limit: int = 100) -> int:
        # Chosen by a reader, because finding them may take longer than others should wait to write.
        parameters = {"before": ended_before, "limit": max(limit, 0)}
        chosen = _within(await self._readers.fetch("list_prunable_runs", parameters, tuple))
        if not chosen:
            return 0
        wanted = {"run_ids": as_json(chosen), "before": ended_before}

        def prune(connection: sqlite3.Connection) -> int:
            found = _rows(connection, "lock_prunable_runs", wanted)
            keys, ids = [(row[0],) for row in found], [(row[1],) for row in found]
            connection.executemany(text("prune_events"), keys)
            for table in ("links", "logs", "log_heads"):
                connection.executemany(text(f"prune_run_{table}"), ids)
            connection.executemany(text("prune_run"), keys)
            return len(found)

        return await self._writing().run(prune)

    async def prune_links(self, expired_before: float) -> int:
        return len(await self._write("prune_links", {"before": expired_before}))

    async def prune_callbacks(self, received_before: float) -> int:
        return len(await self._write("prune_callbacks", {"before": received_before}))

    # -- ways to the parts

    async def _write(self, name: str, parameters: Parameters) -> list[tuple[Any, ...]]:
        """What it returns."""
        return await self._writing().run(lambda connection: _rows(connection, name, parameters))

    async def _find(self, name: str, parameters: Parameters, make: Callable[[tuple[Any, ...]], Item]) -> Item | None:
        found = await self._readers.fetch(name, parameters, make)
        return found[0] if found else None


def _rows(connection: sqlite3.Connection, name: str, parameters: Parameters) -> list[tuple[Any, ...]]:
    return connection.execute(query(name, parameters), parameters).fetchall()


def _first(row: tuple[Any, ...]) -> Any:
    return row[0]


def _log_row(position: int, line: LogLine) -> tuple[object, ...]:
    values = (line.tenant, line.node, line.visit, line.attempt, line.at, line.level)
    return (line.run_id, position, *values, cut_message(line.message))


def _within(runs: list[tuple[Any, ...]]) -> list[str]:
    """The first of them, as many as have `PRUNE_ROWS` rows together; at least one."""
    chosen: list[str] = []
    total = 0
    for run_id, count in runs:
        total += count
        if chosen and total > PRUNE_ROWS:
            break
        chosen.append(run_id)
    return chosen
