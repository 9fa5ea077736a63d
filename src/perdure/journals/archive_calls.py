"""The archive calls that are the same over every SQL database: a query by its name, its parameters, its rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from perdure.archive.agent_entries import LAST_TEXT
from perdure.archive.aliases import Alias, VersionNote
from perdure.archive.audit_chain import EVERY_ENTRY, AuditFilter, AuditHead, AuditRecord
from perdure.archive.credentials import ApiKey, Link, Session
from perdure.archive.kept_rows import AssetRow, SavedView
from perdure.archive.notifications import Callback, Notification
from perdure.archive.stored_lines import StoredLine
from perdure.errors import NotFound
from perdure.journals import archive_rows as rows
from perdure.journals.calls import Calls, first
from perdure.journals.rows import decode_cursor, named, page, positional
from perdure.purses import BudgetRow
from perdure.records import AgentEntry, EntryName, LedgerSum, Page, RunRecord


class ArchiveCalls(Calls):
    # -- workflow versions

    async def note_version(self, note: VersionNote) -> None:
        await self._write("note_version", rows.note_values(note))

    async def find_notes(self, tenant: str, workflow: str, versions: Collection[int]) -> Mapping[int, VersionNote]:
        parameters = {"tenant": tenant, "workflow": workflow, "versions": self._many(versions)}
        return {note.version: note for note in await self._read("find_notes", parameters, rows.note)}

    async def count_users(self, tenant: str, workflow: str, version: int | None = None) -> int:
        found = await self._find("count_users", {"tenant": tenant, "workflow": workflow, "version": version}, first)
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

    # -- aliases

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

    # -- saved views

    async def save_view(self, view: SavedView) -> None:
        await self._write("save_view", rows.struct_values(view))

    async def find_view(self, tenant: str, owner: str, name: str) -> SavedView | None:
        return await self._find("find_view", {"tenant": tenant, "owner": owner, "name": name}, rows.saved_view)

    async def list_views(self, tenant: str, owner: str, limit: int = 100) -> list[SavedView]:
        parameters = {"tenant": tenant, "owner": owner, "limit": max(limit, 0)}
        return await self._read("list_views", parameters, rows.saved_view)

    async def delete_view(self, tenant: str, owner: str, name: str) -> SavedView | None:
        found = await self._write("delete_view", {"tenant": tenant, "owner": owner, "name": name})
        return rows.saved_view(found[0]) if found else None

    # -- the ledger

    async def sum_ledger(
        self,
        tenant: str,
        by: Literal["day", "workflow", "model", "tenant"],
        since: str,
        until: str,
        *,
        workflow: str = "",
        limit: int = 1000,
    ) -> list[LedgerSum]:
        parameters = {"tenant": tenant, "grouping": by, "since": since, "until": until, "workflow": workflow}
        return await self._read("sum_ledger", {**parameters, "limit": max(limit, 0)}, named(LedgerSum))

    # -- budgets over several runs

    async def save_budget(self, budget: BudgetRow) -> None:
        await self._write("save_budget", rows.struct_values(budget))

    async def delete_budget(self, tenant: str, scope: str) -> bool:
        return bool(await self._write("delete_budget", {"tenant": tenant, "scope": scope}))

    # -- assets

    async def keep_asset(self, asset: AssetRow) -> int:
        parameters = {name: value for name, value in rows.struct_values(asset).items() if name != "version"}
        while True:
            if found := await self._write("keep_asset", parameters):
                return int(found[0][0])
            # Another process took the same number in between.

    async def find_asset(self, tenant: str, name: str, version: int | None = None) -> AssetRow | None:
        return await self._find("find_asset", {"tenant": tenant, "name": name, "version": version}, rows.asset)

    async def list_assets(
        self, tenant: str, name: str = "", *, limit: int = 100, cursor: str | None = None
    ) -> Page[AssetRow]:
        place = decode_cursor(cursor, tuple[str, int])
        parameters = {
            "tenant": tenant,
            "after_name": place[0] if place else name,
            "after_version": place[1] if place else 0,
            "last_name": name or LAST_TEXT,
            "limit": max(limit, 0) + 1,
        }
        found = await self._read("list_assets", parameters, lambda row: (rows.asset(row), (row[1], row[2])))
        return page(found, limit)

    async def list_all_assets(self, *, limit: int = 100, cursor: str | None = None) -> Page[AssetRow]:
        place = decode_cursor(cursor, tuple[str, str, int]) or ("", "", 0)
        parameters = {
            "after_tenant": place[0],
            "after_name": place[1],
            "after_version": place[2],
            "limit": max(limit, 0) + 1,
        }
        found = await self._read("list_all_assets", parameters, lambda row: (rows.asset(row), tuple(row[:3])))
        return page(found, limit)

    async def measure_assets(self, tenant: str) -> int:
        return int(await self._find("measure_assets", {"tenant": tenant}, first) or 0)

    async def delete_asset(self, tenant: str, name: str, version: int, now: float) -> AssetRow | None:
        parameters = {"tenant": tenant, "name": name, "version": version, "now": now}
        found = await self._write("delete_asset", parameters)
        return rows.asset(found[0]) if found else None

    # -- what agents leave

    async def save_entry(self, entry: AgentEntry) -> None:
        await self._write("save_entry", rows.struct_values(entry))

    async def list_entries(
        self, tenant: str, space: str, name: str, *, before: str = LAST_TEXT, limit: int = 100
    ) -> list[AgentEntry]:
        parameters = {"tenant": tenant, "space": space, "name": name, "before": before, "limit": max(limit, 0)}
        return await self._read("list_entries", parameters, rows.entry)

    async def list_entry_names(
        self, tenant: str, space: str, *, limit: int = 100, cursor: str | None = None
    ) -> Page[EntryName]:
        place = decode_cursor(cursor, tuple[str])
        parameters = {"tenant": tenant, "space": space, "after": place[0] if place else "", "limit": max(limit, 0) + 1}
        make = positional(EntryName)
        return page(await self._read("list_entry_names", parameters, lambda row: (make(row), (row[0],))), limit)

    async def list_all_entries(self, *, limit: int = 100, cursor: str | None = None) -> Page[AgentEntry]:
        place = decode_cursor(cursor, tuple[str, str, str, str]) or ("", "", "", "")
        names = ("after_tenant", "after_space", "after_name", "after_place")
        parameters = {**dict(zip(names, place, strict=True)), "limit": max(limit, 0) + 1}
        found = await self._read("list_all_entries", parameters, lambda row: (rows.entry(row), tuple(row[:4])))
        return page(found, limit)

    async def delete_entries(self, tenant: str, space: str, name: str) -> int:
        return len(await self._write("delete_entries", {"tenant": tenant, "space": space, "name": name}))

    # -- sessions

    async def create_session(self, session: Session) -> None:
        await self._write("create_session", rows.session_values(session))

    async def find_session(self, token_hash: bytes) -> Session | None:
        return await self._find("find_session", {"token_hash": token_hash}, rows.session)

    async def touch_session(self, token_hash: bytes, at: float) -> None:
        await self._write("touch_session", {"token_hash": token_hash, "seen_at": at})

    async def list_sessions(
        self, tenant: str, owner: str, *, now: float, seen_after: float, limit: int = 100, cursor: str | None = None
    ) -> Page[Session]:
        place = decode_cursor(cursor, tuple[float, str])
        parameters = {
            "tenant": tenant,
            "owner": owner,
            "now": now,
            "seen_after": seen_after,
            "cursor_at": place and place[0],
            "cursor_session": place and place[1],
            "limit": max(limit, 0) + 1,
        }
        found = await self._read("list_sessions", parameters, lambda row: (rows.session(row), (row[9], row[1])))
        return page(found, limit)

    async def end_session(self, tenant: str, owner: str, session_id: str) -> Session | None:
        parameters = {"tenant": tenant, "owner": owner, "session_id": session_id}
        found = await self._write("end_session", parameters)
        return rows.session(found[0]) if found else None

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

    async def read_logs(
        self, tenant: str, run_id: str, *, node: str | None = None, after: int = 0, limit: int = 1000
    ) -> list[StoredLine]:
        parameters = {"tenant": tenant, "run_id": run_id, "node": node, "after": after, "limit": max(limit, 0)}
        return await self._read("read_logs", parameters, rows.line)

    # -- housekeeping

    async def prune_idempotency(self, ended_before: float) -> int:
        return len(await self._write("prune_idempotency", {"before": ended_before}))

    async def prune_links(self, expired_before: float) -> int:
        return len(await self._write("prune_links", {"before": expired_before}))

    async def prune_sessions(self, expired_before: float) -> int:
        return len(await self._write("prune_sessions", {"before": expired_before}))

    async def prune_entries(self, space: str, before: float) -> int:
        return len(await self._write("prune_entries", {"space": space, "before": before}))

    async def prune_callbacks(self, received_before: float) -> int:
        return len(await self._write("prune_callbacks", {"before": received_before}))
