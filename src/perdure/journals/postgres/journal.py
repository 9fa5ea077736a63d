"""`PostgresJournal`: the port over one database. It puts the parts together; each rule stands in the part it belongs to.

The schema is in `migrations/`, queries in `queries/`, appends in `writer.py` and `appender.py`, everything else goes through
the bounded pool of `connections.py`. What happens when the database goes back in time is in `witness.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from perdure.archive import Archive
from perdure.clock import Clock
from perdure.errors import NotFound
from perdure.journal import (
    EVERYTHING,
    Appended,
    ApprovalRow,
    Command,
    Commit,
    DeadLetterRow,
    Definition,
    DueTimer,
    HeldBy,
    HolderLock,
    InvalidCommit,
    JournalClosed,
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
from perdure.journals.postgres.archive import PostgresArchive
from perdure.journals.postgres.connections import Connections, Options
from perdure.journals.postgres.errors import is_text
from perdure.journals.postgres.hold import Hold, hold
from perdure.journals.postgres.leases import PostgresLeases
from perdure.journals.postgres.together import Together
from perdure.journals.postgres.witness import Witness
from perdure.journals.postgres.writer import Writer
from perdure.journals.rows import (
    Row,
    as_bytes,
    as_text,
    decode_cursor,
    found,
    listing,
    named,
    page,
    positional,
    run_record,
)
from perdure.leases import Leases

Item = TypeVar("Item")

_event = positional(StoredEvent)
_approval = named(ApprovalRow)
_dead_letter = named(DeadLetterRow)
_workflow = named(WorkflowVersion)


def _first(row: Row) -> Any:
    return row[0]


def _run(row: Row) -> RunRecord:
    record = run_record(row)
    if row[3] is None:
        return record
    return msgspec.structs.replace(record, quarantined=as_text(row[3]))


def _numbers(partitions: Collection[int] | None) -> list[int] | None:
    return None if partitions is None else list(partitions)


class PostgresJournal:
    """Made by `open_postgres`, ended by `close`."""

    def __init__(self, options: Options, clock: Clock, *, readers: int, writers: int, queue_limit: int) -> None:
        self._options = options
        self._clock = clock
        self._witness = Witness(options)
        self._connections = Connections(options, readers, self._witness.greet)
        self._writer = Writer(options, clock, self._witness, writers, queue_limit)
        self._hold: Hold | None = None
        self._closed = False
        self._runs = Together(self._find_runs, clock, most=200)
        self._snapshots = Together(self._find_snapshots, clock, most=50)
        self._events = Together(self._read_events, clock, most=50)
        self._answers = Together(self._find_answers, clock, most=1000)
        self._commands = Together(self._put_commands, clock, most=500, at_once=1)
        self.leases: Leases = PostgresLeases(self._connections)
        self.archive: Archive = PostgresArchive(self._connections, _run)

    @property
    def partition_count(self) -> int:
        return self._witness.partition_count

    async def close(self) -> None:
        self._closed = True
        await self._writer.close()
        await self._connections.close()
        if self._hold is not None:
            self._hold.release()

    # -- runs

    async def append(self, commits: Sequence[Commit]) -> list[Appended]:
        for commit in commits:
            check(commit)
        self._check_open()
        return await self._writer.append(commits) if commits else []

    async def get_run(self, run_id: str) -> RunRecord:
        return found(await self.find_run(run_id), "run", run_id)

    async def find_run(self, run_id: str) -> RunRecord | None:
        return await self._runs.ask(run_id) if is_text(run_id) else None

    async def _find_runs(self, run_ids: list[str]) -> Mapping[str, RunRecord]:
        return {record.run_id: record for record in await self._read("find_run", {"run_ids": run_ids}, _run)}

    async def find_commit(self, run_id: str) -> LastCommit | None:
        return await self._find("find_commit", {"run_id": run_id}, positional(LastCommit))

    async def find_seqs(self, run_ids: Collection[str]) -> Mapping[str, int]:
        return dict(await self._read("find_seqs", {"run_ids": list(run_ids)}, tuple))

    async def find_snapshot(self, run_id: str) -> Snapshot | None:
        return await self._snapshots.ask(run_id) if is_text(run_id) else None

    async def _find_snapshots(self, run_ids: list[str]) -> Mapping[str, Snapshot]:
        return dict(await self._read("find_snapshot", {"run_ids": run_ids}, lambda row: (row[0], Snapshot(*row[1:]))))

    async def read_events(self, run_id: str, after: int = 0, limit: int = 1000) -> list[StoredEvent]:
        if not is_text(run_id):
            return []
        return await self._events.ask((run_id, after, max(limit, 0))) or []

    async def _read_events(
        self, places: list[tuple[str, int, int]]
    ) -> Mapping[tuple[str, int, int], list[StoredEvent]]:
        found: dict[tuple[str, int, int], list[StoredEvent]] = {}
        for limit in {limit for _, _, limit in places}:
            asked = [place for place in places if place[2] == limit]
            parameters = {"run_ids": [one[0] for one in asked], "afters": [one[1] for one in asked], "limit": limit}
            for row in await self._read("read_events", parameters, tuple):
                found.setdefault(asked[row[0] - 1], []).append(_event(row[1:]))
        return found

    async def list_runs(
        self, where: RunFilter = EVERYTHING, *, limit: int = 100, cursor: str | None = None
    ) -> Page[RunRecord]:
        place = decode_cursor(cursor, tuple[float, str])
        parameters: dict[str, object] = {
            "tenant": where.tenant,
            "state": where.states[0] if len(where.states) == 1 else None,
            "states": where.states if len(where.states) > 1 else None,
            "workflow": where.workflow,
            "tag_name": where.tag and as_bytes(where.tag[0]),
            "tag_value": where.tag and as_bytes(where.tag[1]),
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
        return page(await self._read(name, parameters, lambda row: (_run(row), (row[14], row[0]))), limit)

    async def list_active_runs(
        self, partitions: Collection[int] | None = None, after: str = "", limit: int = 1000, *, busy: bool = False
    ) -> list[RunRecord]:
        parameters = {
            "partitions": _numbers(partitions),
            "after": after,
            "limit": max(limit, 0),
            "busy": True if busy else None,
        }
        return await self._read("list_active_runs", parameters, _run)

    async def mark_quarantined(self, run_id: str, reason: str) -> None:
        if not await self._write("mark_quarantined", {"run_id": run_id, "reason": as_bytes(reason)}):
            raise NotFound(f"run {run_id} does not exist")

    async def unquarantine(self, run_id: str) -> None:
        if not await self._write("unquarantine", {"run_id": run_id}):
            raise NotFound(f"run {run_id} does not exist")

    async def find_idempotency(self, tenant: str, key: str) -> tuple[str, str] | None:
        parameters = {"tenant": tenant, "key": as_bytes(key)}
        return await self._find("find_idempotency", parameters, lambda row: (row[0], row[1]))

    # -- timers

    async def list_due_timers(
        self, now: float, limit: int = 1000, partitions: Collection[int] | None = None
    ) -> list[DueTimer]:
        parameters = {"now": now, "limit": max(limit, 0), "partitions": _numbers(partitions)}
        return await self._read("list_due_timers", parameters, positional(DueTimer))

    async def next_timer(self, partitions: Collection[int] | None = None) -> float | None:
        return await self._find("next_timer", {"partitions": _numbers(partitions)}, _first)

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
        rows = await self._read("list_approvals", parameters, lambda row: (_approval(row), (row[5], row[0])))
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
        rows = await self._read("list_dead_letters", parameters, lambda row: (_dead_letter(row), (row[5], row[0])))
        return page(rows, limit)

    # -- notices

    async def read_notices(
        self, partitions: Collection[int] | None = None, after: int = 0, limit: int = 1000
    ) -> list[Notice]:
        parameters = {"partitions": _numbers(partitions), "after": after, "limit": max(limit, 0)}
        return await self._read("read_notices", parameters, positional(Notice))

    async def delete_notices(self, notice_ids: Sequence[int]) -> None:
        await self._write("delete_notices", {"notice_ids": list(notice_ids)})

    # -- commands

    async def put_command(self, run_id: str, body: bytes, *, command_id: str | None = None) -> str:
        command_id = command_id or self._clock.new_id()
        if not (is_text(run_id) and is_text(command_id)):
            raise InvalidCommit(f"journal {self._options.name} cannot store a command for run {run_id!r}")
        await self._commands.ask((command_id, run_id, body))
        return command_id

    async def _put_commands(self, commands: list[tuple[str, str, bytes]]) -> Mapping[tuple[str, str, bytes], None]:
        parameters = {
            "command_ids": [command_id for command_id, _, _ in commands],
            "run_ids": [run_id for _, run_id, _ in commands],
            "partitions": [partition_of(run_id, self.partition_count) for _, run_id, _ in commands],
            "put_ats": [self._clock.now()] * len(commands),
            "bodies": [body for _, _, body in commands],
        }
        await self._write("put_command", parameters)
        return {}

    async def read_commands(
        self, partitions: Collection[int] | None = None, after: int = 0, limit: int = 1000
    ) -> list[Command]:
        parameters = {"partitions": _numbers(partitions), "after": after, "limit": max(limit, 0)}
        return await self._read("read_commands", parameters, positional(Command))

    async def answer_command(self, command_id: str, body: bytes) -> None:
        parameters = {"command_id": command_id, "answer": body, "answered_at": self._clock.now()}
        await self._write("answer_command", parameters)

    async def find_answer(self, command_id: str) -> bytes | None:
        return await self._answers.ask(command_id) if is_text(command_id) else None

    async def _find_answers(self, command_ids: list[str]) -> Mapping[str, bytes]:
        return dict(await self._read("find_answer", {"command_ids": command_ids}, tuple))

    # -- definitions and workflows

    async def put_definition(self, definition_hash: str, kind: str, body: bytes) -> None:
        await self._write("put_definition", {"definition_hash": definition_hash, "kind": kind, "body": body})

    async def get_definition(self, definition_hash: str) -> Definition:
        definition = await self._find("get_definition", {"definition_hash": definition_hash}, positional(Definition))
        return found(definition, "definition", definition_hash)

    async def register_workflow(self, name: str, definition_hash: str, *, ir_hash: str, tenant: str = "default") -> int:
        parameters = {"tenant": tenant, "name": name, "definition_hash": definition_hash}
        new = parameters | {"ir_hash": ir_hash, "registered_at": self._clock.now()}
        while True:
            version = await self._find("find_workflow_version", parameters, _first)
            if version is not None:
                return int(version)
            # Whoever is beaten to the next number looks again; somebody else has then got on.
            if rows := await self._write("register_workflow", new):
                return int(rows[0][0])

    async def find_workflow(
        self, name: str, version: int | None = None, *, tenant: str = "default"
    ) -> WorkflowVersion | None:
        return await self._find("find_workflow", {"tenant": tenant, "name": name, "version": version}, _workflow)

    async def list_workflows(
        self, *, tenant: str = "default", limit: int = 100, cursor: str | None = None
    ) -> Page[WorkflowVersion]:
        place = decode_cursor(cursor, tuple[str])
        parameters = {"tenant": tenant, "after": place and place[0], "limit": max(limit, 0) + 1}
        return page(await self._read("list_workflows", parameters, lambda row: (_workflow(row), (row[0],))), limit)

    async def list_workflow_versions(
        self, name: str, *, tenant: str = "default", limit: int = 100, cursor: str | None = None
    ) -> Page[WorkflowVersion]:
        place = decode_cursor(cursor, tuple[int])
        parameters = {"tenant": tenant, "name": name, "before": place and place[0], "limit": max(limit, 0) + 1}
        rows = await self._read("list_workflow_versions", parameters, lambda row: (_workflow(row), (row[1],)))
        return page(rows, limit)

    # -- who may write

    async def incarnation(self) -> int:
        row: Row = found(await self._find("incarnation", {}, tuple), "row of meta", "incarnation")
        self._witness.note_place(row[0], row[1])
        return int(row[0])

    async def raise_incarnation(self, by: int = 1) -> int:
        return int((await self._write("raise_incarnation", {"by": by}))[0][0])

    async def raise_epochs(self, partitions: Collection[int]) -> Mapping[int, int]:
        rows = await self._write("raise_epochs", {"partitions": list(partitions)})
        return {row[0]: row[1] for row in rows}

    async def hold(self) -> HolderLock | HeldBy:
        self._check_open()
        held = await hold(self._options, self._witness.greet)
        if isinstance(held, Hold):
            self._hold = held
        return held

    # -- housekeeping

    async def prune_commands(self, answered_before: float) -> int:
        return len(await self._write("prune_commands", {"before": answered_before}))

    async def prune_idempotency(self, created_before: float) -> int:
        return len(await self._write("prune_idempotency", {"before": created_before}))

    # -- ways to the parts

    def _check_open(self) -> None:
        if self._closed:
            raise JournalClosed(f"journal {self._options.name} is closed")

    async def _write(self, name: str, parameters: Mapping[str, object]) -> list[Row]:
        """One row for each that was changed."""
        return await self._connections.write(name, parameters)

    async def _read(self, name: str, parameters: Mapping[str, object], make: Callable[[Row], Item]) -> list[Item]:
        return await self._connections.fetch(name, parameters, make)

    async def _find(self, name: str, parameters: Mapping[str, object], make: Callable[[Row], Item]) -> Item | None:
        rows = await self._connections.fetch(name, parameters, make)
        return rows[0] if rows else None
