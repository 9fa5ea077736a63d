"""The append inside a transaction: guards each commit, then writes everything that passed in few statements.

It owns the order of the guards and the shape of the writes. It must not know threads, futures or how the transaction is begun
and ended. One `Appender` lives for one transaction: what it has read of a run stays true until the end, so it keeps it, and
leaves it to the next one; the writer forgets it when anything else may have written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

import msgspec

from perdure.journal import Accepted, Appended, Commit, Conflict, Exists, Fenced, IdempotencyKey, partition_of
from perdure.journals.sqlite.statements import text

_FIND_RUN = text("append_find_run")
_FIND_COMMIT = text("append_find_commit")
_EVENTS = text("append_events")
_ADVANCE = text("append_advance_run")
_UPDATE = text("append_update_run")


_KEPT_IN_ORDER = frozenset({"append_clear_subscription", "append_set_subscription"})
"""Statements about the same rows: one commit sets what another clears."""


def _in_tables(row: tuple[str, tuple[object, ...]]) -> str:
    return "" if row[0] in _KEPT_IN_ORDER else row[0]


class Run:
    """A run as it stands within the transaction. `seen` is the number on its row in the file: the fence. `fields` are those that
    indexes know."""

    __slots__ = ("changed", "commit_id", "counter", "fields", "key", "seen", "seq", "started_at")

    def __init__(
        self, key: int, seq: int, commit_id: str, started_at: float | None, fields: tuple[object, ...]
    ) -> None:
        self.key = key
        self.seq = self.seen = seq
        self.commit_id = commit_id
        self.started_at = started_at
        self.fields = fields
        self.counter = 0
        self.changed = False


class Known:
    """What is known of the file as this connection has left it, until anything else may have written."""

    __slots__ = ("epochs", "incarnation", "runs")

    def __init__(self) -> None:
        self.runs: dict[str, Run | None] = {}
        """Runs by id; None for one that does not exist."""
        self.incarnation: int | None = None
        self.epochs: dict[int, int] = {}

    def forget(self) -> None:
        self.runs.clear()
        self.incarnation = None
        self.epochs.clear()


class Appender:
    def __init__(self, connection: sqlite3.Connection, partition_count: int, now: float, known: Known) -> None:
        self._connection = connection
        self._partition_count = partition_count
        self._now = now
        self._known, self._runs = known, known.runs
        self._dirty: dict[str, Run] = {}
        self._events: list[tuple[object, ...]] = []
        self._timers: dict[tuple[int, str], tuple[float, int] | None] = {}
        self._rows: list[tuple[str, tuple[object, ...]]] = []

    def append(self, commits: Sequence[Commit]) -> list[Appended]:
        return [self._append(commit) for commit in commits]

    def _append(self, commit: Commit) -> Appended:
        run = self._find_run(commit.run_id)
        last = commit.expected_seq + len(commit.events)
        if run is not None and (run.seq != commit.expected_seq or run.commit_id == commit.commit_id):
            if self._is_repeat(run, commit, last):
                return Accepted(last)
        if commit.epoch is not None or commit.incarnation is not None:
            fenced = self._fenced(commit)
            if fenced is not None:
                return fenced
        if commit.expected_seq == 0:
            exists = self._exists(run, commit)
            if exists is not None:
                return exists
            run = self._create(commit, last)
        elif run is None:
            return Conflict(0, "")
        elif run.seq != commit.expected_seq:
            return Conflict(run.seq, run.commit_id)
        else:
            self._advance(run, commit, last)
        self._collect(run.key, commit)
        return Accepted(last)

    # -- guards

    def _find_run(self, run_id: str) -> Run | None:
        try:
            return self._runs[run_id]
        except KeyError:
            found = self._connection.execute(_FIND_RUN, (run_id,)).fetchone()
            run = None if found is None else Run(found[0], found[1], found[2], found[3], found[4:])
            self._runs[run_id] = run
            return run

    def _is_repeat(self, run: Run, commit: Commit, last: int) -> bool:
        if run.commit_id == commit.commit_id:
            return True
        if last > run.seq or not commit.events:
            return False
        self._flush_events()  # the commit may be of this very transaction
        found = self._connection.execute(_FIND_COMMIT, (run.key, last)).fetchone()
        return found is not None and found[0] == commit.commit_id

    def _fenced(self, commit: Commit) -> Fenced | None:
        known, epochs = self._known, self._known.epochs
        if known.incarnation is None:
            known.incarnation = int(self._connection.execute(text("incarnation")).fetchone()[0])
        epoch = 0
        if commit.epoch is not None:
            partition = commit.epoch.partition
            if partition not in epochs:
                found = self._connection.execute(text("append_find_epoch"), (partition,)).fetchone()
                epochs[partition] = 0 if found is None else found[0]
            epoch = epochs[partition]
        lost_epoch = commit.epoch is not None and commit.epoch.epoch != epoch
        lost_incarnation = commit.incarnation is not None and commit.incarnation != known.incarnation
        return Fenced(epoch, known.incarnation) if lost_epoch or lost_incarnation else None

    def _exists(self, run: Run | None, commit: Commit) -> Exists | None:
        key = commit.idempotency
        if key is not None:
            found = self._connection.execute(
                text("find_idempotency"), {"tenant": key.tenant, "key": key.key}
            ).fetchone()
            if found is not None:
                return Exists(found[0], found[1] == key.body_hash)
        return None if run is None else Exists(commit.run_id, same_body=False)

    # -- writes

    def _create(self, commit: Commit, last: int) -> Run:
        row = commit.row
        cursor = self._connection.execute(
            text("append_create_run"),
            (
                commit.run_id,
                last,
                commit.commit_id,
                row.state,
                row.workflow,
                row.workflow_version,
                row.ir,
                row.partition,
                row.tenant,
                row.tags,
                row.generation,
                row.counter,
                int(row.busy),
                row.created_at,
                row.started_at,
                row.ended_at,
                row.error,
                row.parent,
            ),
        )
        assert cursor.lastrowid is not None
        fields = (row.state, int(row.busy), row.ir, row.generation, row.ended_at, row.error)
        run = self._runs[commit.run_id] = Run(cursor.lastrowid, last, commit.commit_id, row.started_at, fields)
        if row.tags != b"{}":
            named = {"created_at": row.created_at, "run_key": run.key, "tenant": row.tenant, "tags": row.tags.decode()}
            self._connection.execute(text("append_create_tags"), named)
        if commit.idempotency is not None:
            self._create_idempotency(commit.idempotency, commit)
        return run

    def _create_idempotency(self, key: IdempotencyKey, commit: Commit) -> None:
        # At once, not at the end: a later commit of this transaction may carry the same key.
        self._connection.execute(
            text("append_create_idempotency"),
            (key.tenant, key.key, key.body_hash, commit.run_id, commit.row.created_at),
        )

    def _advance(self, run: Run, commit: Commit, last: int) -> None:
        row = commit.row
        fields = (row.state, int(row.busy), row.ir, row.generation, row.ended_at, row.error)
        if fields != run.fields:
            run.fields = fields
            run.changed = True
        run.seq = last
        run.commit_id = commit.commit_id
        run.counter, run.started_at = row.counter, row.started_at
        self._dirty[commit.run_id] = run

    def _collect(self, key: int, commit: Commit) -> None:
        if commit.events:
            add = self._events.append
            for event in commit.events[:-1]:
                add((key, event.seq, event.type, event.at, "", bytearray(event.body)))
            event = commit.events[-1]
            add((key, event.seq, event.type, event.at, commit.commit_id, bytearray(event.body)))
        for timer in commit.timers_cleared:
            self._timers[key, timer] = None
        for timer, due_at in commit.timers_set:
            self._timers[key, timer] = (due_at, commit.row.partition)
        if commit.snapshot is not None:
            snapshot = commit.snapshot
            self._add("append_snapshot", (key, snapshot.seq, snapshot.version, snapshot.body))
        for approval in commit.approvals:
            self._add("append_approval", tuple(getattr(approval, name) for name in approval.__struct_fields__))
        for letter in commit.dead_letters:
            self._add("append_dead_letter", tuple(getattr(letter, name) for name in letter.__struct_fields__))
        for trigger in commit.triggers:
            self._add("append_trigger", tuple(getattr(trigger, name) for name in trigger.__struct_fields__))
        for place in commit.subscriptions_cleared:
            self._add("append_clear_subscription", (place,))
        for one in commit.subscriptions:
            row = (one.tenant, one.topic, one.key, one.run_id, one.place, one.since, one.since_at)
            self._add("append_set_subscription", (*row, commit.row.partition))
        for happened in commit.occurrences:
            named = (happened.tenant, happened.topic, happened.key, happened.id)
            self._add("append_occurrence", (*named, happened.at, happened.body, *named[:2]))
        for used in commit.ledger:
            self._add("append_ledger", msgspec.structs.astuple(used))
        for entry in commit.entries:
            self._add("append_agent_entry", msgspec.structs.astuple(entry))
        for notice_id in commit.notices_consumed:
            self._add("append_consume_notice", (notice_id, commit.run_id))
        for run_id, body in commit.notices:
            partition = partition_of(run_id, self._partition_count)
            self._add("append_notice", (partition, run_id, commit.run_id, body))
        for command_id, answer in commit.command_answers:
            self._add("answer_command", (answer, self._now, command_id))

    def _add(self, name: str, row: tuple[object, ...]) -> None:
        self._rows.append((name, row))

    def flush(self) -> None:
        """Write everything to the database; the transaction may then be committed, or go on."""
        self._flush_events()
        self._flush_runs()
        if self._timers:
            cleared = [place for place, timer in self._timers.items() if timer is None]
            due = [(*place, *timer) for place, timer in self._timers.items() if timer is not None]
            self._connection.executemany(text("append_clear_timer"), cleared)
            self._connection.executemany(text("append_set_timer"), due)
            self._timers.clear()
        self._rows.sort(key=_in_tables)  # commits of many triggers write the same few kinds of rows in turn
        for name, rows in groupby(self._rows, itemgetter(0)):
            self._connection.executemany(text(name), [row for _, row in rows])
        self._rows.clear()

    def _flush_events(self) -> None:
        if self._events:
            self._connection.executemany(_EVENTS, self._events)
            self._events.clear()

    def _flush_runs(self) -> None:
        if not self._dirty:
            return
        advanced, updated = [], []
        for run in self._dirty.values():
            if run.changed:
                updated.append((run.seq, run.commit_id, run.counter, run.started_at, *run.fields, run.key, run.seen))
                run.changed = False
            else:
                advanced.append((run.seq, run.commit_id, run.counter, run.started_at, run.key, run.seen))
            run.seen = run.seq
        written = 0
        if advanced:
            written += self._connection.executemany(_ADVANCE, advanced).rowcount
        if updated:
            written += self._connection.executemany(_UPDATE, updated).rowcount
        if written != len(self._dirty):
            # The transaction has held the write lock since before it read, so this cannot be;
            # but a fence that trusts is none.
            raise sqlite3.OperationalError(f"{len(self._dirty) - written} runs moved inside the transaction")
        self._dirty.clear()
