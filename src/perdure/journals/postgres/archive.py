"""The archive in the journal's PostgreSQL database. The rules stand in `perdure.archive`.

Each operation is one statement, and so one transaction; an operation of several steps is a function of the
database (migrations/0004_archive.sql).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from perdure.archive import PRUNE_ROWS
from perdure.archive.aliases import Alias, check_alias
from perdure.archive.audit_chain import AuditEntry, audit_payload
from perdure.archive.stored_lines import LOG_LINES, LogLine, cut_message
from perdure.journals import archive_rows as rows
from perdure.journals.archive_calls import ArchiveCalls
from perdure.journals.postgres.calls import PostgresCalls
from perdure.journals.postgres.connections import Connections


class PostgresArchive(PostgresCalls, ArchiveCalls):
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    # -- workflow versions

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

    # -- API keys

    async def touch_keys(self, used: Mapping[str, float]) -> None:
        # Sorted by every process: two that touch the same keys must not wait for each other.
        uses = sorted(used.items())
        parameters = {"key_ids": [key_id for key_id, _ in uses], "times": [at for _, at in uses]}
        await self._write("touch_keys", parameters)

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

    # -- housekeeping

    async def prune_runs(self, ended_before: float, limit: int = 100) -> int:
        parameters = {"before": ended_before, "most_runs": max(limit, 0), "most_rows": PRUNE_ROWS}
        return int((await self._write("prune_runs", parameters))[0][0])
