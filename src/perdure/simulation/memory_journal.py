"""The journal in memory: the model that the real adapters are compared with, and the one the simulator runs on.

Dropping one without closing it is a crash; the `Store` stays. Written to be obviously right, so it scans and
sorts where a database has an index.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from perdure.archive import Archive
from perdure.clock import Clock, system
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
    JournalClosed,
    LastCommit,
    Notice,
    Occurrence,
    Outline,
    Page,
    RunCount,
    RunFilter,
    RunRecord,
    Snapshot,
    StoredEvent,
    Subscription,
    Topic,
    TriggerRow,
    WorkflowVersion,
    check,
    partition_of,
)
from perdure.leases import Leases
from perdure.purses import Purse
from perdure.simulation import store as stores
from perdure.simulation.pages import count, found, is_asked, matches, page
from perdure.simulation.store import Lock, Store

Item = TypeVar("Item")


class MemoryJournal:
    def __init__(self, store: Store | None = None, *, clock: Clock = system) -> None:
        self.archive: Archive | None = None
        self.leases: Leases | None = None
        self.store = store or Store()
        self._clock = clock
        self._closed = False

    @property
    def partition_count(self) -> int:
        return self.store.partition_count

    @property
    def _open(self) -> Store:
        if self._closed:
            raise JournalClosed("journal in memory is closed")
        return self.store

    async def close(self) -> None:
        if not self._closed and self._lock is not None:
            self._lock.release()
        self._closed = True

    async def append(self, commits: Sequence[Commit]) -> list[Appended]:
        for commit in commits:
            check(commit)
        store, at = self._open, self._clock.now()
        return [stores.append(store, commit, at) for commit in commits]

    # -- runs

    async def get_run(self, run_id: str) -> RunRecord:
        return found(self._open.runs.get(run_id), "run", run_id)

    async def find_run(self, run_id: str) -> RunRecord | None:
        return self._open.runs.get(run_id)

    async def find_commit(self, run_id: str) -> LastCommit | None:
        run = self._open.runs.get(run_id)
        return None if run is None else LastCommit(run.seq, run.commit_id)

    async def find_seqs(self, run_ids: Collection[str]) -> Mapping[str, int]:
        return {name: self._open.runs[name].seq for name in run_ids if name in self._open.runs}

    async def find_outlines(self, run_ids: Collection[str], letter_state: str) -> Mapping[str, Outline]:
        store = self._open
        letters = [one.run_id for one in store.dead_letters.values() if one.state == letter_state]
        return {
            name: Outline(store.events[name][0].body, store.events[name][-1].at, letters.count(name))
            for name in run_ids
            if name in store.runs
        }

    async def find_snapshot(self, run_id: str) -> Snapshot | None:
        return self._open.snapshots.get(run_id)

    async def read_events(self, run_id: str, after: int = 0, limit: int = 1000) -> list[StoredEvent]:
        return self._open.events.get(run_id, [])[max(after, 0) :][: max(limit, 0)]

    async def list_runs(
        self, where: RunFilter = EVERYTHING, *, limit: int = 100, cursor: str | None = None
    ) -> Page[RunRecord]:
        sign = 1 if where.oldest else -1
        place: dict[str, tuple[Any, ...]] = {
            run_id: (sign * ((run.row.ended_at or 0.0) if where.by_end else run.row.created_at), sign * number)
            for number, (run_id, run) in enumerate(self._open.runs.items())
        }
        return page(self._matching(where), lambda run: place[run.run_id], tuple[float, int], limit, cursor)

    def _matching(self, where: RunFilter) -> list[RunRecord]:
        runs = self._open.runs.values()
        parents = {run.row.parent for run in runs if run.row.parent is not None and run.row.ended_at is None}
        return [run for run in runs if matches(run, where, parents)]

    async def count_runs(
        self,
        where: RunFilter = EVERYTHING,
        *,
        group: Literal["state", "workflow", "error"] | None = None,
        bucket: float | None = None,
        limit: int = 10_000,
    ) -> list[RunCount]:
        newest = (await self.list_runs(msgspec.structs.replace(where, oldest=False), limit=limit)).items
        return count(newest, where, group, bucket)

    async def list_active_runs(
        self, partitions: Collection[int] | None = None, after: str = "", limit: int = 1000, *, busy: bool = False
    ) -> list[RunRecord]:
        runs = [run for _, run in sorted(self._open.runs.items())]
        return [
            run
            for run in runs
            if run.run_id > after
            and run.row.ended_at is None
            and run.quarantined is None
            and (run.row.busy or not busy)
            and (partitions is None or run.row.partition in partitions)
        ][: max(limit, 0)]

    async def mark_quarantined(self, run_id: str, reason: str) -> None:
        run = await self.get_run(run_id)
        self._open.runs[run_id] = msgspec.structs.replace(run, quarantined=reason)

    async def unquarantine(self, run_id: str) -> None:
        run = await self.get_run(run_id)
        self._open.runs[run_id] = msgspec.structs.replace(run, quarantined=None)

    async def find_idempotency(self, tenant: str, key: str) -> tuple[str, str] | None:
        found = self._open.idempotency.get((tenant, key))
        return None if found is None else found[:2]

    # -- timers

    def _timers(self, partitions: Collection[int] | None) -> list[DueTimer]:
        runs = self._open.runs
        return sorted(
            (
                DueTimer(run_id, timer, due_at)
                for (run_id, timer), due_at in self._open.timers.items()
                if runs[run_id].quarantined is None and (partitions is None or runs[run_id].row.partition in partitions)
            ),
            key=lambda timer: timer.due_at,
        )

    async def list_due_timers(
        self,
        now: float,
        limit: int = 1000,
        partitions: Collection[int] | None = None,
        runs: Collection[str] | None = None,
    ) -> list[DueTimer]:
        due = [timer for timer in self._timers(partitions) if timer.due_at <= now]
        return [timer for timer in due if runs is None or timer.run_id in runs][: max(limit, 0)]

    async def next_timer(self, partitions: Collection[int] | None = None) -> float | None:
        return next((timer.due_at for timer in self._timers(partitions)), None)

    def now(self) -> float:
        """The wall time of the process that uses this journal."""
        return self._clock.now()

    # -- approvals and dead letters

    async def get_approval(self, approval_id: str) -> ApprovalRow:
        return found(self._open.approvals.get(approval_id), "approval", approval_id)

    async def list_approvals(
        self,
        *,
        state: str | None = None,
        tenant: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[ApprovalRow]:
        rows = [row for row in self._open.approvals.values() if is_asked(row, state, tenant, run_id)]
        return page(rows, lambda row: (row.requested_at, row.approval_id), tuple[float, str], limit, cursor)

    async def get_dead_letter(self, dead_letter_id: str) -> DeadLetterRow:
        return found(self._open.dead_letters.get(dead_letter_id), "dead letter", dead_letter_id)

    async def list_dead_letters(
        self,
        *,
        state: str | None = None,
        tenant: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[DeadLetterRow]:
        rows = [row for row in self._open.dead_letters.values() if is_asked(row, state, tenant, run_id)]
        return page(rows, lambda row: (row.created_at, row.dead_letter_id), tuple[float, str], limit, cursor)

    # -- triggers

    async def find_trigger(self, tenant: str, name: str) -> TriggerRow | None:
        return self._open.triggers.get((tenant, name))

    async def find_hook(self, hook: str) -> TriggerRow | None:
        rows = (row for row in self._open.triggers.values() if row.hook == hook and row.state != "deleted")
        return next(rows, None)

    async def list_triggers(
        self,
        *,
        tenant: str | None = None,
        kind: str | None = None,
        state: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[TriggerRow]:
        rows = [
            row
            for row in self._open.triggers.values()
            if tenant in {None, row.tenant}
            and kind in {None, row.kind}
            and (row.state != "deleted" if state is None else row.state == state)
        ]
        return page(rows, lambda row: (row.tenant, row.name), tuple[str, str], limit, cursor)

    async def count_triggers(self, tenant: str) -> int:
        return sum(row.tenant == tenant and row.state != "deleted" for row in self._open.triggers.values())

    # -- occurrences

    async def put_occurrence(self, occurrence: Occurrence) -> tuple[int, bool]:
        return stores.put_occurrence(self._open, occurrence)

    async def read_occurrences(
        self,
        tenant: str,
        topic: str,
        *,
        key: str | None = None,
        after: int = 0,
        since: float | None = None,
        limit: int = 100,
    ) -> list[Occurrence]:
        return [
            one
            for position, one in sorted(self._open.occurrences.items())
            if (one.tenant, one.topic) == (tenant, topic)
            and key in {None, one.key}
            and position > after
            and (since is None or one.at >= since)
        ][: max(limit, 0)]

    async def list_topics(self, after: int, limit: int = 10_000) -> list[Topic]:
        found: dict[tuple[str, str, str], Topic] = {}
        lately = [one for position, one in sorted(self._open.occurrences.items()) if position > after]
        for one in lately[: max(limit, 0)]:
            place = (one.tenant, one.topic, one.key)
            at = max(one.at, found[place].at) if place in found else one.at
            found[place] = Topic(*place, one.position, at)
        return list(found.values())

    async def last_occurrence(self) -> int:
        return max(self._open.occurrences, default=0)

    async def list_subscribers(
        self,
        topic: Topic,
        partitions: Collection[int] | None = None,
        *,
        after: str = "",
        limit: int = 1000,
    ) -> list[Subscription]:
        return [
            one
            for place, one in sorted(self._open.subscriptions.items())
            if place > after
            and (one.tenant, one.topic, one.key) == (topic.tenant, topic.topic, topic.key)
            and one.since < topic.position
            and (one.since_at is None or one.since_at <= topic.at)
            and self._is_mine(one.run_id, partitions)
        ][: max(limit, 0)]

    async def read_subscriptions(self, run_id: str) -> list[Subscription]:
        return [one for _, one in sorted(self._open.subscriptions.items()) if one.run_id == run_id]

    async def prune_occurrences(self, before: float) -> int:
        return stores.prune_occurrences(self._open, before)

    async def count_occurrences(self, tenant: str, most: int) -> int:
        return min(sum(one.tenant == tenant for one in self._open.occurrences.values()), most)

    async def drop_occurrences(self, tenant: str, most: int) -> int:
        return stores.prune_occurrences(self._open, float("inf"), tenant, most)

    async def count_subscribers(self, tenant: str, topic: str, key: str | None = None, most: int = 1000) -> int:
        found = [one for one in self._open.subscriptions.values() if (one.tenant, one.topic) == (tenant, topic)]
        return min(sum(key is None or one.key in ("", key) for one in found), most)

    # -- notices and commands

    def _is_mine(self, run_id: str, partitions: Collection[int] | None) -> bool:
        return partitions is None or partition_of(run_id, self.partition_count) in partitions

    async def read_notices(
        self, partitions: Collection[int] | None = None, after: int = 0, limit: int = 1000
    ) -> list[Notice]:
        notices = [notice for number, notice in sorted(self._open.notices.items()) if number > after]
        return [notice for notice in notices if self._is_mine(notice.run_id, partitions)][: max(limit, 0)]

    async def delete_notices(self, notice_ids: Sequence[int]) -> None:
        for notice_id in notice_ids:
            self._open.notices.pop(notice_id, None)

    async def put_command(self, run_id: str, body: bytes, *, command_id: str | None = None) -> str:
        store = self._open
        command_id = command_id or self._clock.new_id()
        if command_id not in store.commands:
            store.last_command += 1
            store.commands[command_id] = Command(store.last_command, command_id, run_id, self._clock.now(), body)
        return command_id

    async def read_commands(
        self, partitions: Collection[int] | None = None, after: int = 0, limit: int = 1000
    ) -> list[Command]:
        store = self._open
        return [
            command
            for command in store.commands.values()
            if command.command_id not in store.answers
            and command.position > after
            and self._is_mine(command.run_id, partitions)
        ][: max(limit, 0)]

    async def answer_command(self, command_id: str, body: bytes) -> None:
        stores.answer(self._open, command_id, body, self._clock.now())

    async def find_answer(self, command_id: str) -> bytes | None:
        found = self._open.answers.get(command_id)
        return None if found is None else found[0]

    # -- definitions and workflows

    async def put_definition(self, definition_hash: str, kind: str, body: bytes) -> None:
        self._open.definitions.setdefault(definition_hash, Definition(definition_hash, kind, body))

    async def get_definition(self, definition_hash: str) -> Definition:
        return found(self._open.definitions.get(definition_hash), "definition", definition_hash)

    async def register_workflow(self, name: str, definition_hash: str, *, ir_hash: str, tenant: str = "default") -> int:
        versions = self._open.workflows.setdefault((tenant, name), [])
        for known in versions:
            if known.definition_hash == definition_hash:
                return known.version
        versions.append(
            WorkflowVersion(
                name=name,
                version=len(versions) + 1,
                definition_hash=definition_hash,
                ir_hash=ir_hash,
                tenant=tenant,
                registered_at=self._clock.now(),
            )
        )
        return len(versions)

    async def find_workflow(
        self, name: str, version: int | None = None, *, tenant: str = "default"
    ) -> WorkflowVersion | None:
        versions = self._open.workflows.get((tenant, name), [])
        return next((known for known in reversed(versions) if version in {None, known.version}), None)

    async def list_workflows(
        self, *, tenant: str = "default", limit: int = 100, cursor: str | None = None
    ) -> Page[WorkflowVersion]:
        latest = [versions[-1] for (owner, _), versions in self._open.workflows.items() if owner == tenant]
        return page(latest, lambda known: (known.name,), tuple[str], limit, cursor)

    async def list_workflow_versions(
        self, name: str, *, tenant: str = "default", limit: int = 100, cursor: str | None = None
    ) -> Page[WorkflowVersion]:
        versions = self._open.workflows.get((tenant, name), [])
        return page(versions, lambda known: (-known.version,), tuple[int], limit, cursor)

    # -- who may write

    async def incarnation(self) -> int:
        return self._open.incarnation

    async def raise_incarnation(self, by: int = 1) -> int:
        self._open.incarnation += by
        return self._open.incarnation

    async def check_writable(self) -> None:
        assert self._open is not None

    async def raise_epochs(self, partitions: Collection[int]) -> Mapping[int, int]:
        store = self._open
        for partition in partitions:
            if partition in store.epochs:
                store.epochs[partition] += 1
        return {partition: store.epochs[partition] for partition in partitions if partition in store.epochs}

    _lock: Lock | None = None

    async def hold(self) -> HolderLock | HeldBy:
        store = self._open
        if store.holder is not None:
            return HeldBy(0, "memory")
        self._lock = store.holder = Lock(store)
        return self._lock

    # -- budgets over several runs

    async def read_purses(
        self, tenant: str, day: str, month: str, *, workflow: str = "", limit: int = 1000
    ) -> list[Purse]:
        return stores.read_purses(self._open, tenant, day, month, workflow)[:limit]

    # -- housekeeping

    async def prune_commands(self, answered_before: float) -> int:
        return stores.prune_commands(self._open, answered_before)
