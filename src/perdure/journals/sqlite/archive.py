"""The archive in the journal's SQLite file: operations of several statements. The rules stand in `perdure.archive`.

It writes through the journal's one writing thread, inside its transactions, and reads through its readers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from perdure.archive import PRUNE_ROWS
from perdure.archive.aliases import Alias, check_alias
from perdure.archive.audit_chain import NO_HASH, AuditEntry, audit_hash, audit_payload
from perdure.archive.stored_lines import LOG_LINES, LogLine, cut_message
from perdure.journals import archive_rows as rows
from perdure.journals.archive_calls import ArchiveCalls
from perdure.journals.sqlite.calls import SqliteCalls, as_json, fetch
from perdure.journals.sqlite.readers import Readers
from perdure.journals.sqlite.statements import text
from perdure.journals.sqlite.writer import Writer


class SqliteArchive(SqliteCalls, ArchiveCalls):
    def __init__(self, readers: Readers, writing: Callable[[], Writer]) -> None:
        """`writing` gives the journal's writer, or raises the reason why nothing may be written."""
        self._readers = readers
        self._find_writer = writing

    def _writing(self) -> Writer:
        return self._find_writer()

    # -- workflow versions

    async def delete_workflow(self, tenant: str, workflow: str, version: int | None = None) -> int:
        parameters = {"tenant": tenant, "workflow": workflow, "version": version}

        def delete(connection: sqlite3.Connection) -> int:
            if not fetch(connection, "find_versions", parameters):
                rows.refuse_missing(workflow, version)
            if users := fetch(connection, "count_users", parameters)[0][0]:
                rows.refuse_in_use(workflow, version, rows.runs_in_use(users))
            if version is None:
                fetch(connection, "delete_aliases", parameters)
                fetch(connection, "delete_alias_moves", parameters)
            elif aliases := fetch(connection, "find_alias_of_version", parameters):
                rows.refuse_in_use(workflow, version, rows.alias_in_use(aliases[0][0]))
            gone = [row[0] for row in fetch(connection, "delete_workflow", parameters)]
            fetch(connection, "delete_notes", parameters)
            fetch(connection, "note_deleted", parameters | {"last_version": max(gone)})
            return len(gone)

        return await self._writing().run(delete)

    # -- aliases

    async def put_alias(self, alias: Alias, *, expected_revision: int | None = None) -> Alias:
        check_alias(alias)
        parameters = rows.alias_values(alias)
        versions = [share.version for share in alias.shares]

        def put(connection: sqlite3.Connection) -> Alias:
            wanted = parameters | {"versions": as_json(versions)}
            there = {row[0] for row in fetch(connection, "find_versions", wanted)}
            if missing := [version for version in versions if version not in there]:
                rows.refuse_missing(alias.workflow, missing[0])
            found = fetch(connection, "find_alias_row", parameters)
            last, present = found[0] if found else (0, False)
            if expected_revision not in (None, last if present else 0):
                rows.refuse_moved(alias, expected_revision, last if present else 0)
            moved = parameters | {"revision": last + 1}
            fetch(connection, "put_alias_move", moved)
            fetch(connection, "put_alias", moved)
            return msgspec.structs.replace(alias, revision=last + 1)

        return await self._writing().run(put)

    # -- API keys

    async def touch_keys(self, used: Mapping[str, float]) -> None:
        uses = [{"key_id": key_id, "used_at": at} for key_id, at in used.items()]
        await self._writing().run(lambda connection: connection.executemany(text("touch_keys"), uses).rowcount)

    # -- audit

    async def append_audit(self, entries: Sequence[AuditEntry]) -> None:
        def append(connection: sqlite3.Connection) -> None:
            for entry in entries:
                found = fetch(connection, "find_audit_head", {"tenant": entry.tenant})
                seq, previous = found[0] if found else (0, NO_HASH)
                digest = audit_hash(previous, seq + 1, audit_payload(entry))
                values = (entry.at, entry.principal, entry.action, entry.object, entry.detail, entry.request_id)
                connection.execute(text("append_audit"), (entry.tenant, seq + 1, *values, previous, digest))
                connection.execute(text("append_audit_head"), (entry.tenant, seq + 1, digest))

        await self._writing().run(append)

    # -- logs

    async def append_logs(self, lines: Sequence[LogLine]) -> None:
        groups = rows.lines_by_run(lines)

        def append(connection: sqlite3.Connection) -> None:
            for (run_id, tenant), group in groups.items():
                found = fetch(connection, "find_log_head", {"run_id": run_id, "tenant": tenant})
                if not found:
                    continue  # no such run in this tenant
                last = found[0][0]
                new = [_log_row(last + number, line) for number, line in enumerate(group[-LOG_LINES:], 1)]
                connection.executemany(text("append_logs"), new)
                last += len(new)
                connection.execute(text("append_log_head"), (run_id, last))
                fetch(connection, "cut_logs", {"run_id": run_id, "position": last - LOG_LINES})

        await self._writing().run(append)

    # -- housekeeping

    async def prune_runs(self, ended_before: float, limit: int = 100) -> int:
        # Chosen by a reader, because finding them may take longer than other calls should wait to write.
        parameters = {"before": ended_before, "limit": max(limit, 0)}
        chosen = _within(await self._read("list_prunable_runs", parameters, tuple))
        if not chosen:
            return 0
        wanted = {"run_ids": as_json(chosen), "before": ended_before}

        def prune(connection: sqlite3.Connection) -> int:
            found = fetch(connection, "lock_prunable_runs", wanted)
            keys, ids = [(row[0],) for row in found], [(row[1],) for row in found]
            connection.executemany(text("prune_events"), keys)
            connection.executemany(text("leave_run_keys"), ids)
            for table in ("links", "logs", "log_heads", "subscriptions"):
                connection.executemany(text(f"prune_run_{table}"), ids)
            connection.executemany(text("prune_run"), keys)
            return len(found)

        return await self._writing().run(prune)


def _log_row(position: int, line: LogLine) -> tuple[object, ...]:
    values = (line.tenant, line.node, line.visit, line.attempt, line.at, line.level)
    return (line.run_id, position, *values, cut_message(line.message))


def _within(runs: list[tuple[Any, ...]]) -> list[str]:
    """The first runs, as many as have `PRUNE_ROWS` rows together; at least one."""
    chosen: list[str] = []
    total = 0
    for run_id, count in runs:
        total += count
        if chosen and total > PRUNE_ROWS:
            break
        chosen.append(run_id)
    return chosen
