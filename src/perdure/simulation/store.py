"""Durable tables in memory, and the rules of an append. A `Store` outlives its journals as a file does processes."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.capacity import PARTITIONS
from perdure.journal import (
    Accepted,
    AgentEntry,
    Appended,
    ApprovalRow,
    Command,
    Commit,
    Conflict,
    DeadLetterRow,
    Definition,
    Exists,
    Fenced,
    LedgerRow,
    Notice,
    Occurrence,
    RunRecord,
    Snapshot,
    StoredEvent,
    Subscription,
    TriggerRow,
    WorkflowVersion,
)
from perdure.purses import BudgetRow, Purse

_FIXED = ("workflow", "workflow_version", "partition", "tenant", "tags", "created_at", "parent")


class Store:
    """The durable tables of a journal."""

    def __init__(self, partitions: int = PARTITIONS) -> None:
        self.partition_count = partitions
        self.incarnation = 1
        self.epochs = dict.fromkeys(range(partitions), 0)
        self.partition_holders: dict[int, str] = {}
        self.coordinators: dict[str, float] = {}
        self.runs: dict[str, RunRecord] = {}
        self.events: dict[str, list[StoredEvent]] = {}
        self.commits: dict[tuple[str, int], str] = {}
        self.timers: dict[tuple[str, str], float] = {}
        self.snapshots: dict[str, Snapshot] = {}
        self.approvals: dict[str, ApprovalRow] = {}
        self.dead_letters: dict[str, DeadLetterRow] = {}
        self.triggers: dict[tuple[str, str], TriggerRow] = {}
        self.notices: dict[int, Notice] = {}
        self.commands: dict[str, Command] = {}
        self.answers: dict[str, tuple[bytes, float]] = {}
        self.idempotency: dict[tuple[str, str], tuple[str, str, float]] = {}
        self.definitions: dict[str, Definition] = {}
        self.workflows: dict[tuple[str, str], list[WorkflowVersion]] = {}
        self.occurrences: dict[int, Occurrence] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.ledger: dict[tuple[str, str, str, str], LedgerRow] = {}
        self.budgets: dict[tuple[str, str], BudgetRow] = {}
        self.entries: dict[tuple[str, str, str, str], AgentEntry] = {}
        self.last_occurrence = 0
        self.last_notice = 0
        self.last_command = 0
        self.holder: Lock | None = None

    def copy(self) -> Store:
        """A copy of everything as it is now, to go back to later, except for the holder of the lock."""
        other = Store(self.partition_count)
        for name, value in vars(self).items():
            if name == "events":
                other.events = {run_id: list(events) for run_id, events in self.events.items()}
            elif name == "workflows":
                other.workflows = {key: list(versions) for key, versions in self.workflows.items()}
            elif name != "holder":
                setattr(other, name, dict(value) if isinstance(value, dict) else value)
        return other

    def restore(self, earlier: Store) -> None:
        """Go back in time, as a restored backup does: the incarnation grows, and the holder keeps the lock."""
        incarnation, holder = self.incarnation, self.holder
        vars(self).update(vars(earlier.copy()))
        self.incarnation, self.holder = incarnation + 1, holder


class Lock:
    def __init__(self, store: Store) -> None:
        self._store = store

    def release(self) -> None:
        if self._store.holder is self:
            self._store.holder = None


def append(store: Store, commit: Commit, at: float) -> Appended:
    refusal = _guard(store, commit)
    if refusal is not None:
        return refusal
    run_id, last = commit.run_id, commit.expected_seq + len(commit.events)
    old = store.runs.get(run_id)
    row = commit.row
    if old is not None:
        row = msgspec.structs.replace(row, **{name: getattr(old.row, name) for name in _FIXED})
    store.runs[run_id] = RunRecord(
        run_id=run_id,
        seq=last,
        commit_id=commit.commit_id,
        quarantined=old.quarantined if old else None,
        row=row,
    )
    store.events.setdefault(run_id, []).extend(commit.events)
    if commit.events:
        store.commits[run_id, last] = commit.commit_id
    for timer in commit.timers_cleared:
        store.timers.pop((run_id, timer), None)
    for timer, due_at in commit.timers_set:
        store.timers[run_id, timer] = due_at
    if commit.snapshot is not None:
        store.snapshots[run_id] = commit.snapshot
    store.approvals.update((row.approval_id, row) for row in commit.approvals)
    store.dead_letters.update((row.dead_letter_id, row) for row in commit.dead_letters)
    for trigger in commit.triggers:
        known = store.triggers.get((trigger.tenant, trigger.name))
        if known is None or known.life <= trigger.life:
            store.triggers[trigger.tenant, trigger.name] = trigger
    for place in commit.subscriptions_cleared:
        store.subscriptions.pop(place, None)
    store.subscriptions.update((one.place, one) for one in commit.subscriptions)
    wanted = {(one.tenant, one.topic) for one in store.subscriptions.values()}
    for happened in commit.occurrences:
        if (happened.tenant, happened.topic) in wanted:
            put_occurrence(store, happened)
    for used in commit.ledger:
        where = (used.tenant, used.day, used.workflow, used.model)
        before, after = store.ledger.get(where), used
        if before is not None:
            amounts = {one: getattr(before, one) + getattr(used, one) for one in used.__struct_fields__[4:]}
            after = msgspec.structs.replace(used, **amounts)
        store.ledger[where] = after
    for entry in commit.entries:
        store.entries.setdefault((entry.tenant, entry.space, entry.name, entry.place), entry)
    for notice_id in commit.notices_consumed:
        if notice_id in store.notices and store.notices[notice_id].run_id == run_id:
            del store.notices[notice_id]
    for to_run_id, body in commit.notices:
        store.last_notice += 1
        store.notices[store.last_notice] = Notice(store.last_notice, to_run_id, run_id, body)
    for command_id, body in commit.command_answers:
        answer(store, command_id, body, at)
    if commit.idempotency is not None:
        key = commit.idempotency
        store.idempotency[key.tenant, key.key] = (run_id, key.body_hash, row.created_at)
    return Accepted(last)


def _guard(store: Store, commit: Commit) -> Appended | None:
    run = store.runs.get(commit.run_id)
    last = commit.expected_seq + len(commit.events)
    if run is not None and run.commit_id == commit.commit_id:
        return Accepted(last)
    if commit.events and store.commits.get((commit.run_id, last)) == commit.commit_id:
        return Accepted(last)
    epoch = 0 if commit.epoch is None else store.epochs.get(commit.epoch.partition, 0)
    lost_epoch = commit.epoch is not None and commit.epoch.epoch != epoch
    if lost_epoch or commit.incarnation not in {None, store.incarnation}:
        return Fenced(epoch, store.incarnation)
    if commit.expected_seq == 0:
        if commit.idempotency is not None:
            found = store.idempotency.get((commit.idempotency.tenant, commit.idempotency.key))
            if found is not None:
                return Exists(found[0], found[1] == commit.idempotency.body_hash)
        return None if run is None else Exists(commit.run_id, same_body=False)
    if run is None:
        return Conflict(0, "")
    return None if run.seq == commit.expected_seq else Conflict(run.seq, run.commit_id)


def put_occurrence(store: Store, happened: Occurrence) -> tuple[int, bool]:
    for known in store.occurrences.values():
        if (known.tenant, known.topic, known.id) == (happened.tenant, happened.topic, happened.id):
            return known.position, False
    store.last_occurrence += 1
    store.occurrences[store.last_occurrence] = msgspec.structs.replace(happened, position=store.last_occurrence)
    return store.last_occurrence, True


def prune_occurrences(store: Store, before: float, tenant: str | None = None, most: int = 1000) -> int:
    readers = [one for one in store.subscriptions.values() if one.since_at is None]
    old = [
        one.position
        for one in store.occurrences.values()
        if one.at < before
        and tenant in (None, one.tenant)
        and not any((s.tenant, s.topic) == (one.tenant, one.topic) and s.since < one.position for s in readers)
    ][:most]
    for position in old:
        del store.occurrences[position]
    return len(old)


def answer(store: Store, command_id: str, body: bytes, at: float) -> None:
    if command_id in store.commands:
        store.answers.setdefault(command_id, (body, at))


def prune_commands(store: Store, answered_before: float) -> int:
    old = [command_id for command_id, (_, at) in store.answers.items() if at < answered_before][:1000]
    for command_id in old:
        del store.answers[command_id], store.commands[command_id]
    return len(old)


def read_purses(store: Store, tenant: str, day: str, month: str, workflow: str) -> list[Purse]:
    found = []
    for (owner, scope), budget in sorted(store.budgets.items()):
        if owner != tenant or (workflow and scope not in ("tenant", f"workflow:{workflow}")):
            continue
        rows = [one for one in store.ledger.values() if one.tenant == tenant]
        rows = [one for one in rows if scope in ("tenant", f"workflow:{one.workflow}")]
        held = [one for one in rows if not one.day]
        spent = [one for one in rows if one.day and one.day >= (day if budget.per == "day" else month)]
        sums = {"spent": spent, "held": held}
        added: dict[str, Any] = {f"{kind}_usd": sum(one.usd for one in some) for kind, some in sums.items()}
        added |= {f"{kind}_calls": sum(one.calls for one in some) for kind, some in sums.items()}
        added |= {f"{kind}_tokens": sum(one.input + one.output for one in some) for kind, some in sums.items()}
        found.append(Purse(**msgspec.structs.asdict(budget), **added))
    return found
