"""The archive in the journal's PostgreSQL database. The rules stand in `perdure.archive`.

Each operation is one statement, and so one transaction; where that takes several steps they are a function of the database
(migrations/0004_archive.sql).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from perdure.archive import (
    EVERY_ENTRY,
    LOG_LINES,
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
    audit_payload,
    check_alias,
    cut_message,
)
from perdure.errors import NotFound
from perdure.journal import Page, RunRecord
from perdure.journals import archive_rows as rows
from perdure.journals.postgres.connections import Connections
from perdure.journals.rows import Row, decode_cursor, page, positional

Item = TypeVar("Item")
Parameters = Mapping[str, object]


class PostgresArchive:
    """`make_run` is how the journal reads a row of a run."""

    def __init__(self, connections: Connections, make_run: Callable[[Row], RunRecord]) -> None:
        self._connections = connections
        self._make_run = make_run

    # -- workflow versions

    async def note_version(self, note: VersionNote) -> None:
        await self._write("note_version", rows.note_values(note))

    async def find_notes(self, tenant: str, workflow: str, versions: Collection[int]) -> Mapping[int, VersionNote]:
        parameters = {"tenant": tenant, "workflow": workflow, "versions": list(versions)}
        return {note.version: note for note in await self._read("find_notes", parameters, rows.note)}

    async def count_users(self, tenant: str, workflow: str, version: int | None = None) -> int:
        found = await self._find("count_users", {"tenant": tenant, "workflow": workflow, "version": version}, _first)
        return int(found or 0)

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
        return page(
            await self._read("list_users", parameters, lambda row: (self._make_run(row), (row[6], row[0]))), limit
        )

    async def delete_workflow(self, tenant: str, workflow: str, version: int | None = None) -> int:
        parameters = {"tenant": tenant, "workflow": workflow, "version": version}
        outcome, detail = (await self._write("delete_workflow", parameters))[0]
        if outcome == "missing":
            rows.refuse_missing(workflow, version)
        if outcome == "runs":
            rows.refuse_in_use(workflow, version, rows.runs_in_use(int(detail)))
        if outcome == "alias":
            rows.refuse_in_use(workflow, version, rows.alias_in_use(detail))
        return int(detail)

    # -- aliases

    async def put_alias(self, alias: Alias, *, expected_revision: int | None = None) -> Alias:
        check_alias(alias)
        versions = [share.version for share in alias.shares]
        parameters = rows.alias_values(alias) | {"versions": versions, "expected": expected_revision}
        outcome, number = (await self._write("put_alias", parameters))[0]
        if outcome == "missing":
            rows.refuse_missing(alias.workflow, number)
        if outcome == "moved":
            rows.refuse_moved(alias, expected_revision, number)
        return msgspec.structs.replace(alias, revision=number)

    async def find_alias(self, tenant: str, workflow: str, alias: str) -> Alias | None:
        return await self._find("find_alias", {"tenant": tenant, "workflow": workflow, "alias": alias}, rows.alias)

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
        return page(await self._read("list_aliases", parameters, lambda row: (rows.alias(row), (row[2],))), limit)

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
        return page(await self._read("list_alias_moves", parameters, lambda row: (rows.alias(row), (row[4],))), limit)

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
        return page(await self._read("list_keys", parameters, lambda row: (rows.key(row), (row[7], row[0]))), limit)

    async def revoke_key(self, tenant: str, key_id: str, at: float) -> ApiKey:
        found = await self._write("revoke_key", {"tenant": tenant, "key_id": key_id, "revoked_at": at})
        if not found:
            raise NotFound(f"key {key_id} does not exist")
        return rows.key(found[0])

    async def touch_keys(self, used: Mapping[str, float]) -> None:
        # Sorted, as everybody does: two that touch the same keys must not wait for each other.
        uses = sorted(used.items())
        parameters = {"key_ids": [key_id for key_id, _ in uses], "times": [at for _, at in uses]}
        await self._write("touch_keys", parameters)

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
        ordered = sorted(entries, key=lambda entry: entry.tenant)  # stable: each chain keeps its order
        parameters = {
            "tenants": [entry.tenant for entry in ordered],
            "times": [entry.at for entry in ordered],
            "principals": [entry.principal for entry in ordered],
            "actions": [entry.action for entry in ordered],
            "objects": [entry.object for entry in ordered],
            "details": [entry.detail for entry in ordered],
            "request_ids": [entry.request_id for entry in ordered],
            "payloads": [audit_payload(entry) for entry in ordered],
        }
        await self._write("append_audit", parameters)

    async def read_audit(self, tenant: str, after: int = 0, limit: int = 1000) -> list[AuditRecord]:
        parameters = {"tenant": tenant, "after": after, "limit": max(limit, 0)}
        return await self._read("read_audit", parameters, rows.audit)

    async def find_audit_head(self, tenant: str) -> AuditHead | None:
        return await self._find("find_audit_head", {"tenant": tenant}, positional(AuditHead))

    async def list_audit(
        self, tenant: str, where: AuditFilter = EVERY_ENTRY, *, limit: int = 100, cursor: str | None = None
    ) -> Page[AuditRecord]:
        parameters = rows.audit_filter(tenant, where, limit, cursor)
        return page(await self._read("list_audit", parameters, lambda row: (rows.audit(row), (row[4], row[0]))), limit)

    # -- logs

    async def append_logs(self, lines: Sequence[LogLine]) -> None:
        ordered = [line for group in rows.lines_by_run(lines).values() for line in group[-LOG_LINES:]]
        parameters = {
            "run_ids": [line.run_id for line in ordered],
            "tenants": [line.tenant for line in ordered],
            "nodes": [line.node for line in ordered],
            "visits": [line.visit for line in ordered],
            "attempts": [line.attempt for line in ordered],
            "times": [line.at for line in ordered],
            "levels": [line.level for line in ordered],
            "messages": [cut_message(line.message) for line in ordered],
            "kept_lines": LOG_LINES,
        }
        await self._write("append_logs", parameters)

    async def read_logs(
        self, tenant: str, run_id: str, *, node: str | None = None, after: int = 0, limit: int = 1000
    ) -> list[StoredLine]:
        parameters = {"tenant": tenant, "run_id": run_id, "node": node, "after": after, "limit": max(limit, 0)}
        return await self._read("read_logs", parameters, rows.line)

    # -- housekeeping

    async def prune_runs(self, ended_before: float, limit: int = 100) -> int:
        parameters = {"before": ended_before, "most_runs": max(limit, 0), "most_rows": PRUNE_ROWS}
        return int((await self._write("prune_runs", parameters))[0][0])

    async def prune_links(self, expired_before: float) -> int:
        return len(await self._write("prune_links", {"before": expired_before}))

    async def prune_callbacks(self, received_before: float) -> int:
        return len(await self._write("prune_callbacks", {"before": received_before}))

    # -- ways to the parts

    async def _write(self, name: str, parameters: Parameters) -> list[Row]:
        return await self._connections.write(name, parameters)

    async def _read(self, name: str, parameters: Parameters, make: Callable[[Row], Item]) -> list[Item]:
        return await self._connections.fetch(name, parameters, make)

    async def _find(self, name: str, parameters: Parameters, make: Callable[[Row], Item]) -> Item | None:
        found = await self._connections.fetch(name, parameters, make)
        return found[0] if found else None


def _first(row: Row) -> Any:
    return row[0]
