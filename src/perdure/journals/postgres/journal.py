"""`PostgresJournal`: the port over one database. It puts the parts together; each rule stands in the part it belongs to.

The schema is in `migrations/`, queries in `queries/`, appends in `writer.py` and `appender.py`, everything else goes
through the bounded pool of `connections.py`; calls that are the same for every database are in `../journal_calls.py`.
What happens when the database goes back in time is in `witness.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from perdure.archive import Archive
from perdure.clock import Clock
from perdure.journal import (
    Appended,
    Commit,
    HeldBy,
    HolderLock,
    InvalidCommit,
    JournalClosed,
    Occurrence,
    RunRecord,
    Snapshot,
    StoredEvent,
    check,
    partition_of,
)
from perdure.journals.calls import first
from perdure.journals.coalescer import Coalescer
from perdure.journals.journal_calls import JournalCalls
from perdure.journals.postgres.archive import PostgresArchive
from perdure.journals.postgres.calls import PostgresCalls
from perdure.journals.postgres.connections import Connections, Options
from perdure.journals.postgres.errors import is_text
from perdure.journals.postgres.hold import Hold, hold
from perdure.journals.postgres.leases import PostgresLeases
from perdure.journals.postgres.witness import Witness
from perdure.journals.postgres.writer import Writer
from perdure.journals.rows import Row, found, positional
from perdure.leases import Leases

_event = positional(StoredEvent)


class PostgresJournal(PostgresCalls, JournalCalls):
    """The journal in PostgreSQL, made by `open_postgres` and ended by `close`."""

    _place_kind = tuple[float, str]

    def __init__(self, options: Options, clock: Clock, *, readers: int, writers: int, queue_limit: int) -> None:
        self._options = options
        self._clock = clock
        self._witness = Witness(options)
        self._connections = Connections(options, readers, self._witness.greet)
        self._writer = Writer(options, clock, self._witness, writers, queue_limit)
        self._hold: Hold | None = None
        self._closed = False
        self._runs = Coalescer(self._find_runs, clock, most=200)
        self._snapshots = Coalescer(self._find_snapshots, clock, most=50)
        self._events = Coalescer(self._read_events, clock, most=50)
        self._hooks = Coalescer(self._find_hooks, clock, most=50)
        self._answers = Coalescer(self._find_answers, clock, most=1000)
        self._commands = Coalescer(self._put_commands, clock, most=500, at_once=1)
        self._occurrences = Coalescer(self._put_occurrences, clock, most=500, at_once=1)
        self.leases: Leases = PostgresLeases(self._connections)
        self.archive: Archive = PostgresArchive(self._connections)

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

    async def find_run(self, run_id: str) -> RunRecord | None:
        return await self._runs.ask(run_id) if is_text(run_id) else None

    async def _find_runs(self, run_ids: list[str]) -> Mapping[str, RunRecord]:
        return {record.run_id: record for record in await self._read("find_run", {"run_ids": run_ids}, self._make_run)}

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

    # -- notices

    async def delete_notices(self, notice_ids: Sequence[int]) -> None:
        await self._write("delete_notices", {"notice_ids": list(notice_ids)})

    # -- occurrences

    async def put_occurrence(self, occurrence: Occurrence) -> tuple[int, bool]:
        if not all(map(is_text, (occurrence.tenant, occurrence.topic, occurrence.key, occurrence.id))):
            raise InvalidCommit(f"journal {self._options.name} cannot store what happened on {occurrence.topic!r}")
        found = await self._occurrences.ask(occurrence)
        assert found is not None, "what was put is there"
        return found

    async def _put_occurrences(self, happened: list[Occurrence]) -> Mapping[Occurrence, tuple[int, bool]]:
        parameters = {
            "tenants": [one.tenant for one in happened],
            "topics": [one.topic for one in happened],
            "keys": [one.key for one in happened],
            "ids": [one.id for one in happened],
            "times": [one.at for one in happened],
            "bodies": [one.body for one in happened],
        }
        rows = await self._write("put_occurrences", parameters)
        found: dict[Occurrence, tuple[int, bool]] = {}
        taken: set[int] = set()
        for place, position, fresh in rows:
            found[happened[place - 1]] = (position, fresh and position not in taken)
            taken.add(position)
        return found

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

    async def answer_command(self, command_id: str, body: bytes) -> None:
        parameters = {"command_id": command_id, "answer": body, "answered_at": self._clock.now()}
        await self._write("answer_command", parameters)

    async def find_answer(self, command_id: str) -> bytes | None:
        return await self._answers.ask(command_id) if is_text(command_id) else None

    async def _find_answers(self, command_ids: list[str]) -> Mapping[str, bytes]:
        return dict(await self._read("find_answer", {"command_ids": command_ids}, tuple))

    # -- definitions and workflows

    async def register_workflow(self, name: str, definition_hash: str, *, ir_hash: str, tenant: str = "default") -> int:
        parameters = {"tenant": tenant, "name": name, "definition_hash": definition_hash}
        new = parameters | {"ir_hash": ir_hash, "registered_at": self._clock.now()}
        while True:
            version = await self._find("find_workflow_version", parameters, first)
            if version is not None:
                return int(version)
            # A process that loses the race for the next number looks again; another one has then made progress.
            if rows := await self._write("register_workflow", new):
                return int(rows[0][0])

    # -- who may write

    async def incarnation(self) -> int:
        row: Row = found(await self._find("incarnation", {}, tuple), "row of meta", "incarnation")
        self._witness.note_place(row[0], row[1])
        return int(row[0])

    async def raise_incarnation(self, by: int = 1) -> int:
        return int((await self._write("raise_incarnation", {"by": by}))[0][0])

    async def check_writable(self) -> None:
        await self._write("check_writable", {})

    async def raise_epochs(self, partitions: Collection[int]) -> Mapping[int, int]:
        rows = await self._write("raise_epochs", {"partitions": list(partitions)})
        return {row[0]: row[1] for row in rows}

    async def hold(self) -> HolderLock | HeldBy:
        self._check_open()
        held = await hold(self._options, self._witness.greet)
        if isinstance(held, Hold):
            self._hold = held
        return held

    # -- ways to the parts

    def _place(self, row: Row) -> tuple[object, ...]:
        return row[14], row[0]

    def _place_by_end(self, row: Row) -> tuple[object, ...]:
        return row[16], row[0]

    def _check_open(self) -> None:
        if self._closed:
            raise JournalClosed(f"journal {self._options.name} is closed")
