"""`SqliteJournal`: the port over one file. It puts the parts together; each rule stands in the part it belongs to.

The file's schema is in `migrations/`, its queries in `queries/`, writing in `writer.py` and `appender.py`, reading in
`readers.py`, the hold in `lock.py`. Nothing else in a process may open the database file: closing a second descriptor of it
would drop SQLite's locks (https://www.sqlite.org/howtocorrupt.html, 2.2).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from perdure.archive import Archive
from perdure.clock import Clock, system
from perdure.errors import NotFound
from perdure.journal import (
    EVERYTHING,
    PARTITIONS,
    Appended,
    ApprovalRow,
    Command,
    Commit,
    DeadLetterRow,
    Definition,
    DueTimer,
    HeldBy,
    HolderLock,
    JournalBusy,
    JournalClosed,
    JournalReadOnly,
    LastCommit,
    Notice,
    Page,
    RunFilter,
    RunRecord,
    Snapshot,
    StoredEvent,
    WorkflowVersion,
    check,
    partition_of,
)
from perdure.journals.rows import decode_cursor, found, listing, named, page, positional, run_record
from perdure.journals.sqlite import lock, schema
from perdure.journals.sqlite.archive import SqliteArchive
from perdure.journals.sqlite.connection import Options, Synchronous
from perdure.journals.sqlite.readers import Readers
from perdure.journals.sqlite.rows import as_json
from perdure.journals.sqlite.statements import text
from perdure.journals.sqlite.writer import Writer
from perdure.leases import Leases

Item = TypeVar("Item")

_event = positional(StoredEvent)
_approval = named(ApprovalRow)
_dead_letter = named(DeadLetterRow)
_workflow = named(WorkflowVersion)


def _first(row: tuple[Any, ...]) -> Any:
    return row[0]


class SqliteJournal:
    """Made by `open`, ended by `close`."""

    def __init__(
        self, options: Options, clock: Clock, writer: Writer | None, readers: Readers, partitions: int
    ) -> None:
        self._options = options
        self._clock = clock
        self._writer = writer
        self._readers = readers
        self._partition_count = partitions
        self._lock: lock.FileLock | None = None
        self._closed = False
        self.archive: Archive = SqliteArchive(readers, self._writing)
        self.leases: Leases | None = None

    @classmethod
    async def open(
        cls,
        path: Path | str,
        *,
        clock: Clock = system,
        partitions: int = PARTITIONS,
        synchronous: Synchronous = "FULL",
        readers: int = 2,
        queue_limit: int = 4096,
        busy_timeout_seconds: float = 5.0,
        read_only: bool = False,
    ) -> SqliteJournal:
        """Open the file, making or migrating it. `partitions` counts only for a new one."""
        options = Options(
            path=_absolute(path),
            synchronous=synchronous,
            busy_timeout_seconds=busy_timeout_seconds,
            read_only=read_only,
        )
        pool = Readers(options, readers)
        try:
            if read_only:
                return cls(options, clock, None, pool, await pool.run(_checked(options)))
            writer = await _open_writer(options, clock, partitions, queue_limit)
        except BaseException:
            await pool.close()
            raise
        return cls(options, clock, writer, pool, writer.partition_count)

    @property
    def partition_count(self) -> int:
        return self._partition_count

    async def close(self) -> None:
        self._closed = True
        # The writer goes last: the last connection that may write folds the write-ahead log into the file.
        await self._readers.close()
        if self._writer is not None:
            await self._writer.close()
        if self._lock is not None:
            self._lock.release()

    # -- runs

    async def append(self, commits: Sequence[Commit]) -> list[Appended]:
        for commit in commits:
            check(commit)
        writer = self._writing()
        return await writer.append(commits) if commits else []

    async def get_run(self, run_id: str) -> RunRecord:
        return found(await self.find_run(run_id), "run", run_id)

    async def find_run(self, run_id: str) -> RunRecord | None:
        return await self._find("find_run", {"run_id": run_id}, run_record)

    async def find_commit(self, run_id: str) -> LastCommit | None:
        return await self._find("find_commit", {"run_id": run_id}, positional(LastCommit))

    async def find_seqs(self, run_ids: Collection[str]) -> Mapping[str, int]:
        return dict(await self._readers.fetch("find_seqs", {"run_ids": as_json(run_ids)}, tuple))

    async def find_snapshot(self, run_id: str) -> Snapshot | None:
        return await self._find("find_snapshot", {"run_id": run_id}, positional(Snapshot))

    async def read_events(self, run_id: str, after: int = 0, limit: int = 1000) -> list[StoredEvent]:
        return await self._readers.fetch(
            "read_events", {"run_id": run_id, "after": after, "limit": max(limit, 0)}, _event
        )

    async def list_runs(
        self, where: RunFilter = EVERYTHING, *, limit: int = 100, cursor: str | None = None
    ) -> Page[RunRecord]:
        place = decode_cursor(cursor, tuple[float, int])
        parameters: dict[str, object] = {
            "tenant": where.tenant,
            "state": where.states[0] if len(where.states) == 1 else None,
            "states": as_json(where.states) if len(where.states) > 1 else None,
            "workflow": where.workflow,
            "tag_name": where.tag and where.tag[0],
            "tag_value": where.tag and where.tag[1],
            "since": where.since,
            "until": where.until,
            "parent": where.parent,
            "top": True if where.top else None,
            "idle": True if where.idle else None,
            "quarantined": True if where.quarantined is True else None,
            "sound": True if where.quarantined is False else None,
            "cursor_at": place and place[0],
            "cursor_key": place and place[1],
            "limit": max(limit, 0) + 1,
        }
        name = "list_runs" if where.tag is None else "list_runs_by_tag"
        return page(await self._readers.fetch(name, parameters, lambda row: (run_record(row), row[19:])), limit)

    async def list_active_runs(
        self, partitions: Collection[int] | None = None, after: str = "", limit: int = 1000, *, busy: bool = False
    ) -> list[RunRecord]:
        parameters = {
            "partitions": as_json(partitions),
            "after": after,
            "limit": max(limit, 0),
            "busy": True if busy else None,
        }
        return await self._readers.fetch("list_active_runs", parameters, run_record)

    async def mark_quarantined(self, run_id: str, reason: str) -> None:
        if not await self._write("mark_quarantined", {"run_id": run_id, "reason": reason}):
            raise NotFound(f"run {run_id} does not exist")

    async def unquarantine(self, run_id: str) -> None:
        if not await self._write("unquarantine", {"run_id": run_id}):
            raise NotFound(f"run {run_id} does not exist")

    async def find_idempotency(self, tenant: str, key: str) -> tuple[str, str] | None:
        return await self._find("find_idempotency", {"tenant": tenant, "key": key}, lambda row: (row[0], row[1]))

    # -- timers

    async def list_due_timers(
        self, now: float, limit: int = 1000, partitions: Collection[int] | None = None
    ) -> list[DueTimer]:
        parameters = {"now": now, "limit": max(limit, 0), "partitions": as_json(partitions)}
        return await self._readers.fetch("list_due_timers", parameters, positional(DueTimer))

    async def next_timer(self, partitions: Collection[int] | None = None) -> float | None:
        return await self._find("next_timer", {"partitions": as_json(partitions)}, _first)

    # -- approvals and dead letters

    async def get_approval(self, approval_id: str) -> ApprovalRow:
        return found(await self._find("get_approval", {"id": approval_id}, _approval), "approval", approval_id)

    async def list_approvals(
        self,
        *,
        state: str | None = None,
        tenant: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[ApprovalRow]:
        parameters = listing(state, tenant, run_id, limit, cursor)
        rows = await self._readers.fetch("list_approvals", parameters, lambda row: (_approval(row), (row[5], row[0])))
        return page(rows, limit)

    async def get_dead_letter(self, dead_letter_id: str) -> DeadLetterRow:
        letter = await self._find("get_dead_letter", {"id": dead_letter_id}, _dead_letter)
        return found(letter, "dead letter", dead_letter_id)

    async def list_dead_letters(
        self,
        *,
        state: str | None = None,
        tenant: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[DeadLetterRow]:
        parameters = listing(state, tenant, run_id, limit, cursor)
        rows = await self._readers.fetch(
            "list_dead_letters", parameters, lambda row: (_dead_letter(row), (row[5], row[0]))
        )
        return page(rows, limit)

    # -- notices

    async def read_notices(
        self, partitions: Collection[int] | None = None, after: int = 0, limit: int = 1000
    ) -> list[Notice]:
        parameters = {"partitions": as_json(partitions), "after": after, "limit": max(limit, 0)}
        return await self._readers.fetch("read_notices", parameters, positional(Notice))

    async def delete_notices(self, notice_ids: Sequence[int]) -> None:
        ids = [(notice_id,) for notice_id in notice_ids]
        await self._writing().run(lambda connection: connection.executemany(text("delete_notices"), ids).rowcount)

    # -- commands

    async def put_command(self, run_id: str, body: bytes, *, command_id: str | None = None) -> str:
        command_id = command_id or self._clock.new_id()
        parameters = {
            "command_id": command_id,
            "run_id": run_id,
            "partition": partition_of(run_id, self._partition_count),
            "put_at": self._clock.now(),
            "body": body,
        }
        await self._write("put_command", parameters)
        return command_id

    async def read_commands(
        self, partitions: Collection[int] | None = None, after: int = 0, limit: int = 1000
    ) -> list[Command]:
        parameters = {"partitions": as_json(partitions), "after": after, "limit": max(limit, 0)}
        return await self._readers.fetch("read_commands", parameters, positional(Command))

    async def answer_command(self, command_id: str, body: bytes) -> None:
        await self._write("answer_command", (body, self._clock.now(), command_id))

    async def find_answer(self, command_id: str) -> bytes | None:
        return await self._find("find_answer", {"command_id": command_id}, _first)

    # -- definitions and workflows

    async def put_definition(self, definition_hash: str, kind: str, body: bytes) -> None:
        await self._write("put_definition", {"definition_hash": definition_hash, "kind": kind, "body": body})

    async def get_definition(self, definition_hash: str) -> Definition:
        definition = await self._find("get_definition", {"definition_hash": definition_hash}, positional(Definition))
        return found(definition, "definition", definition_hash)

    async def register_workflow(self, name: str, definition_hash: str, *, ir_hash: str, tenant: str = "default") -> int:
        parameters = {
            "tenant": tenant,
            "name": name,
            "definition_hash": definition_hash,
            "ir_hash": ir_hash,
            "registered_at": self._clock.now(),
        }

        def register(connection: sqlite3.Connection) -> int:
            connection.execute(text("register_workflow"), parameters)
            version: int = connection.execute(text("find_workflow_version"), parameters).fetchone()[0]
            return version

        return await self._writing().run(register)

    async def find_workflow(
        self, name: str, version: int | None = None, *, tenant: str = "default"
    ) -> WorkflowVersion | None:
        return await self._find("find_workflow", {"tenant": tenant, "name": name, "version": version}, _workflow)

    async def list_workflows(
        self, *, tenant: str = "default", limit: int = 100, cursor: str | None = None
    ) -> Page[WorkflowVersion]:
        place = decode_cursor(cursor, tuple[str])
        parameters = {"tenant": tenant, "after": place and place[0], "limit": max(limit, 0) + 1}
        rows = await self._readers.fetch("list_workflows", parameters, lambda row: (_workflow(row), (row[0],)))
        return page(rows, limit)

    async def list_workflow_versions(
        self, name: str, *, tenant: str = "default", limit: int = 100, cursor: str | None = None
    ) -> Page[WorkflowVersion]:
        place = decode_cursor(cursor, tuple[int])
        parameters = {"tenant": tenant, "name": name, "before": place and place[0], "limit": max(limit, 0) + 1}
        rows = await self._readers.fetch("list_workflow_versions", parameters, lambda row: (_workflow(row), (row[1],)))
        return page(rows, limit)

    # -- who may write

    async def incarnation(self) -> int:
        return int(found(await self._find("incarnation", {}, _first), "row of meta", "incarnation"))

    async def raise_incarnation(self, by: int = 1) -> int:
        return await self._writing().run(
            lambda connection: int(connection.execute(text("raise_incarnation"), {"by": by}).fetchone()[0])
        )

    async def raise_epochs(self, partitions: Collection[int]) -> Mapping[int, int]:
        parameters = {"partitions": as_json(partitions)}
        return await self._writing().run(
            lambda connection: dict(connection.execute(text("raise_epochs"), parameters).fetchall())
        )

    async def hold(self) -> HolderLock | HeldBy:
        self._writing()
        held = lock.hold(self._options.path)
        if isinstance(held, lock.FileLock):
            self._lock = held
        return held

    # -- housekeeping

    async def prune_commands(self, answered_before: float) -> int:
        return await self._write("prune_commands", {"before": answered_before})

    async def prune_idempotency(self, created_before: float) -> int:
        return await self._write("prune_idempotency", {"before": created_before})

    # -- ways to the parts

    def _writing(self) -> Writer:
        if self._closed:
            raise JournalClosed(f"journal {self._options.path} is closed")
        if self._writer is None:
            raise JournalReadOnly(f"journal {self._options.path} was opened for reading only; open it for writing")
        return self._writer

    async def _write(self, name: str, parameters: Mapping[str, object] | tuple[object, ...]) -> int:
        """How many rows it changed."""
        return await self._writing().run(lambda connection: connection.execute(text(name), parameters).rowcount)

    async def _find(
        self, name: str, parameters: Mapping[str, object], make: Callable[[tuple[Any, ...]], Item]
    ) -> Item | None:
        rows = await self._readers.fetch(name, parameters, make)
        return rows[0] if rows else None


async def _open_writer(options: Options, clock: Clock, partitions: int, queue_limit: int) -> Writer:
    # Turning a new file to write-ahead mode does not wait for a lock as everything else does, so it is tried again.
    deadline = clock.monotonic() + options.busy_timeout_seconds
    while True:
        writer = Writer(options, clock, partitions, queue_limit)
        try:
            await writer.open()
        except JournalBusy:
            if clock.monotonic() >= deadline:
                raise
            await clock.sleep(0.01)
        else:
            return writer


def _absolute(path: Path | str) -> Path:
    # Kept from now on: the working directory of the process may change.
    return Path(path).absolute()


def _checked(options: Options) -> Callable[[sqlite3.Connection], int]:
    def count(connection: sqlite3.Connection) -> int:
        schema.check(connection, options.path)
        return schema.partition_count(connection)

    return count
