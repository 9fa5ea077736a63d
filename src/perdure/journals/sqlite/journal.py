"""`SqliteJournal`: the port over one file. It puts the parts together; each rule stands in the part it belongs to.

The file's schema is in `migrations/`, its queries in `queries/`, writing in `writer.py` and `appender.py`, reading in
`readers.py`, the hold in `lock.py`; calls that are the same for every database are in `../journal_calls.py`. Nothing else in a
process may open the database file: closing a second descriptor of it would drop SQLite's locks
(https://www.sqlite.org/howtocorrupt.html, 2.2).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from perdure.archive import Archive
from perdure.capacity import PARTITIONS
from perdure.clock import Clock, system
from perdure.journal import (
    Appended,
    Commit,
    HeldBy,
    HolderLock,
    JournalBusy,
    JournalClosed,
    JournalReadOnly,
    Occurrence,
    RunRecord,
    Snapshot,
    StoredEvent,
    check,
    partition_of,
)
from perdure.journals.calls import Item, first
from perdure.journals.coalescer import Coalescer
from perdure.journals.journal_calls import JournalCalls
from perdure.journals.rows import Row, found, positional, run_record
from perdure.journals.sqlite import lock, schema
from perdure.journals.sqlite.archive import SqliteArchive
from perdure.journals.sqlite.calls import SqliteCalls, as_json, fetch
from perdure.journals.sqlite.connection import Options, Synchronous
from perdure.journals.sqlite.readers import Readers
from perdure.journals.sqlite.statements import text
from perdure.journals.sqlite.writer import Writer
from perdure.leases import Leases

_event = positional(StoredEvent)
_snapshot = positional(Snapshot)
_TOGETHER = 50
"""The most lookups that one visit to a reading thread makes."""


class SqliteJournal(SqliteCalls, JournalCalls):
    """The journal in a SQLite file, made by `open` and ended by `close`."""

    _place_kind = tuple[float, int]

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
        self._runs = _together("find_run", ("run_id",), run_record, readers, clock)
        self._snapshots = _together("find_snapshot", ("run_id",), _snapshot, readers, clock)
        self._events = _together("read_events", ("run_id", "after", "limit"), _event, readers, clock)
        self._hooks = Coalescer(self._find_hooks, clock, most=_TOGETHER)
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
        """Open the file, creating or migrating it. `partitions` counts only for a new one."""
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

    async def find_run(self, run_id: str) -> RunRecord | None:
        found = await self._runs.ask((run_id,))
        return found[0] if found else None

    async def find_snapshot(self, run_id: str) -> Snapshot | None:
        found = await self._snapshots.ask((run_id,))
        return found[0] if found else None

    async def read_events(self, run_id: str, after: int = 0, limit: int = 1000) -> list[StoredEvent]:
        return await self._events.ask((run_id, after, max(limit, 0))) or []

    # -- notices

    async def delete_notices(self, notice_ids: Sequence[int]) -> None:
        ids = [(notice_id,) for notice_id in notice_ids]
        await self._writing().run(lambda connection: connection.executemany(text("delete_notices"), ids).rowcount)

    # -- occurrences

    async def put_occurrence(self, occurrence: Occurrence) -> tuple[int, bool]:
        parameters = {name: getattr(occurrence, name) for name in ("tenant", "topic", "key", "id", "at", "body")}

        def put(connection: sqlite3.Connection) -> tuple[int, bool]:
            new = connection.execute(text("put_occurrence"), parameters).fetchall()
            found = new or connection.execute(text("find_occurrence"), parameters).fetchall()
            return int(found[0][0]), bool(new)

        return await self._writing().run(put)

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
        await self._change("put_command", parameters)
        return command_id

    async def answer_command(self, command_id: str, body: bytes) -> None:
        answer = (body, self._clock.now(), command_id)
        await self._writing().run(lambda connection: connection.execute(text("answer_command"), answer))

    async def find_answer(self, command_id: str) -> bytes | None:
        return await self._find("find_answer", {"command_id": command_id}, first)

    # -- definitions and workflows

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

    # -- who may write

    async def incarnation(self) -> int:
        if self._writer is not None:
            self._writer.check_place()  # a process that has nothing to write asks for the incarnation now and then
        return int(found(await self._find("incarnation", {}, first), "row of meta", "incarnation"))

    async def raise_incarnation(self, by: int = 1) -> int:
        return await self._writing().run(
            lambda connection: int(connection.execute(text("raise_incarnation"), {"by": by}).fetchone()[0])
        )

    async def check_writable(self) -> None:
        await self._writing().run(lambda connection: connection.execute(text("check_writable")).rowcount)

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

    # -- ways to the parts

    def _place(self, row: Row) -> tuple[object, ...]:
        return tuple(row[19:])

    _place_by_end = _place

    def _writing(self) -> Writer:
        if self._closed:
            raise JournalClosed(f"journal {self._options.path} is closed")
        if self._writer is None:
            raise JournalReadOnly(f"journal {self._options.path} was opened for reading only; open it for writing")
        return self._writer


def _together(
    name: str, parameters: tuple[str, ...], make: Callable[[Row], Item], readers: Readers, clock: Clock
) -> Coalescer[tuple[object, ...], list[Item]]:
    """Lookups by a query that are made in one visit to a reading thread when they are asked for at the same time."""

    async def ask_all(keys: list[tuple[object, ...]]) -> dict[tuple[object, ...], list[Item]]:
        def read(connection: sqlite3.Connection) -> dict[tuple[object, ...], list[Item]]:
            return {
                key: list(map(make, fetch(connection, name, dict(zip(parameters, key, strict=True))))) for key in keys
            }

        return await readers.run(read)

    return Coalescer(ask_all, clock, most=_TOGETHER)


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
    # Absolute from now on: the working directory of the process may change.
    return Path(path).absolute()


def _checked(options: Options) -> Callable[[sqlite3.Connection], int]:
    def count(connection: sqlite3.Connection) -> int:
        schema.check(connection, options.path)
        return schema.partition_count(connection)

    return count
