"""The append inside a transaction: commits as columns of one statement, and the answers to those that were not accepted.

It owns the rounds a batch is cut into, the columns, and the order of the guards for an answer. The guards themselves are in
the statement (migrations/0002_append.sql), and it alone writes. It must not know futures, queues, or how a transaction is
begun and ended.

A statement takes one commit of a run only, and the same holds for everything else that two commits could both want. So
commits that meet go into rounds, one after the other. Most batches are one round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from perdure.journal import (
    Accepted,
    AgentEntry,
    Appended,
    ApprovalRow,
    Commit,
    Conflict,
    DeadLetterRow,
    Exists,
    Fenced,
    InvalidCommit,
    LedgerRow,
    OutcomeUnknown,
    Subscription,
    TriggerRow,
    partition_of,
)
from perdure.journals.postgres.connections import TRIES, Connection
from perdure.journals.postgres.statements import bind
from perdure.journals.rows import Row, as_bytes

Columns = dict[str, Any]

_FENCE = tuple("partitions epochs incarnations".split())
_MOVE = tuple(
    "run_id expected_seq seq commit_id state ir generation counter busy started_at ended_at error fence".split()
)
_CREATE = tuple(
    "run_id seq commit_id state workflow workflow_version ir partition tenant tags generation counter busy "
    "created_at started_at ended_at error parent fence key_tenant key body_hash".split()
)
_EVENT = tuple("commit seq type at commit_id body".split())

_tags = msgspec.json.Decoder(dict[str, str]).decode


def rounds(commits: Sequence[Commit]) -> list[list[int]]:
    """The places of the commits, in rounds; within one no two want the same thing, and each is sorted by run."""
    if len({commit.run_id for commit in commits}) == len(commits) and not any(map(_wants_more, commits)):
        return [sorted(range(len(commits)), key=lambda place: commits[place].run_id)]  # the common case
    last: dict[tuple[str, str], int] = {}
    found: list[list[int]] = []
    for place, commit in enumerate(commits):
        wanted = _wants(commit)
        number = 1 + max(last.get(thing, -1) for thing in wanted)
        last.update(dict.fromkeys(wanted, number))
        if number == len(found):
            found.append([])
        found[number].append(place)
    for places in found:
        places.sort(key=lambda place: commits[place].run_id)
    return found


def _wants_more(commit: Commit) -> bool:
    """Whether a commit wants something that a commit of another run could want too."""
    return bool(
        commit.idempotency
        or commit.command_answers
        or commit.approvals
        or commit.dead_letters
        or commit.triggers
        or commit.subscriptions
        or commit.subscriptions_cleared
    )


def _wants(commit: Commit) -> list[tuple[str, str]]:
    things = [("run", commit.run_id)]
    if commit.idempotency is not None:
        things.append(("key of " + commit.idempotency.tenant, commit.idempotency.key))
    things.extend(("command", command_id) for command_id, _ in commit.command_answers)
    things.extend(("approval", row.approval_id) for row in commit.approvals)
    things.extend(("dead letter", row.dead_letter_id) for row in commit.dead_letters)
    things.extend(("trigger of " + row.tenant, row.name) for row in commit.triggers)
    things.extend(("subscription", row.place) for row in commit.subscriptions)
    things.extend(("subscription", place) for place in commit.subscriptions_cleared)
    return things


async def lock(connection: Connection, commits: Sequence[Commit]) -> None:
    """Lock the runs of all rounds of a transaction, as one round does: in their order, before anything is written."""
    query, arguments = bind("lock_runs", {"run_ids": sorted({commit.run_id for commit in commits})})
    await connection.fetch(query, *arguments)


async def append(
    connection: Connection, commits: Sequence[Commit], places: Sequence[int], partition_count: int, now: float
) -> dict[int, Appended]:
    """Append one round. Returns the answer for each place."""
    answers: dict[int, Appended] = {}
    waiting = list(places)
    for _ in range(TRIES):
        # Commits that move a run come first, as the statement numbers them.
        order = [place for place in waiting if commits[place].expected_seq] + [
            place for place in waiting if not commits[place].expected_seq
        ]
        query, arguments = bind("append", columns(commits, order, partition_count, now))
        accepted = await connection.fetchval(query, *arguments)
        refused = []
        for place, passed in zip(order, accepted, strict=True):
            if passed:
                answers[place] = Accepted(_last(commits[place]))
            else:
                refused.append(place)
        # A commit that would pass by now lost to a transaction that was then rolled back; it is tried again.
        waiting = await _explain(connection, commits, refused, answers) if refused else []
        if not waiting:
            return answers
    raise OutcomeUnknown(f"{len(waiting)} of {len(places)} runs changed at every try: append the same commits again")


def _last(commit: Commit) -> int:
    return commit.expected_seq + len(commit.events)


# -- columns


def columns(commits: Sequence[Commit], places: Sequence[int], partition_count: int, now: float) -> Columns:
    """The parameters of the statement for the commits at these places, without the sections they do not need."""
    fences: dict[tuple[int | None, int | None, int | None], int] = {}
    moved: list[tuple[Any, ...]] = []
    created: list[tuple[Any, ...]] = []
    events: list[tuple[Any, ...]] = []
    rest: dict[str, list[tuple[Any, ...]]] = {}
    for number, place in enumerate(places, 1):
        commit = commits[place]
        fence = _fence(commit, fences)
        if commit.expected_seq:
            moved.append(_moved(commit, fence))
        else:
            created.append(_created(commit, fence))
        last = _last(commit)
        events.extend(
            (number, event.seq, event.type, event.at, commit.commit_id if event.seq == last else None, event.body)
            for event in commit.events
        )
        _collect(rest, number, commit, partition_count)
    for section in ("notice", "occurrence"):  # numbered in the order of the commits
        if section in rest:
            rest[section].sort(key=lambda row: places[row[0] - 1])
    result: Columns = {"run_id": [commits[place].run_id for place in places], "now": now}
    _spread(result, "fence", _FENCE, list(fences))
    _spread(result, "move", _MOVE, moved)
    _spread(result, "create", _CREATE, created)
    _spread(result, "event", _EVENT, events)
    for section, rows in rest.items():
        _spread(result, section, _SECTIONS[section], rows)
    return result


def _spread(result: Columns, section: str, names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    if rows:
        for name, column in zip(names, zip(*rows, strict=True), strict=True):
            result[f"{section}_{name}"] = column
    else:
        for name in names:
            result[f"{section}_{name}"] = ()


def _fence(commit: Commit, fences: dict[tuple[int | None, int | None, int | None], int]) -> int:
    """The number of a commit's fence; 0 when it asks for none. A batch has few different ones."""
    epoch = commit.epoch
    if epoch is None:
        if commit.incarnation is None:
            return 0
        return fences.setdefault((None, None, commit.incarnation), len(fences) + 1)
    return fences.setdefault((epoch.partition, epoch.epoch, commit.incarnation), len(fences) + 1)


def _moved(commit: Commit, fence: int) -> tuple[Any, ...]:
    row = commit.row
    return (
        commit.run_id,
        commit.expected_seq,
        _last(commit),
        commit.commit_id,
        row.state,
        row.ir,
        row.generation,
        row.counter,
        row.busy,
        row.started_at,
        row.ended_at,
        row.error,
        fence,
    )


def _created(commit: Commit, fence: int) -> tuple[Any, ...]:
    row, key = commit.row, commit.idempotency
    return (
        commit.run_id,
        _last(commit),
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
        row.busy,
        row.created_at,
        row.started_at,
        row.ended_at,
        row.error,
        row.parent,
        fence,
        None if key is None else key.tenant,
        None if key is None else as_bytes(key.key),
        None if key is None else key.body_hash,
    )


_SECTIONS = {
    "tag": ("commit", "run_id", "name", "value", "created_at"),
    "clear": ("commit", "run_id", "timer_id"),
    "timer": ("commit", "run_id", "timer_id", "due_at", "partition"),
    "snapshot": ("commit", "run_id", "seq", "version", "body"),
    "approval": ("commit", *ApprovalRow.__struct_fields__),
    "letter": ("commit", *DeadLetterRow.__struct_fields__),
    "trigger": ("commit", *TriggerRow.__struct_fields__),
    "unsubscribe": ("commit", "place"),
    "subscribe": ("commit", "tenant", "topic", "key", "run_id", "place", "since", "since_at", "partition"),
    "answer": ("commit", "command_id", "body"),
    "consume": ("commit", "run_id", "notice_id"),
    "notice": ("commit", "partition", "run_id", "from_run_id", "body"),
    "ledger": ("commit", *LedgerRow.__struct_fields__),
    "entry": ("commit", *AgentEntry.__struct_fields__),
    "occurrence": ("commit", "tenant", "topic", "key", "id", "at", "body"),
}


def _collect(rest: dict[str, list[tuple[Any, ...]]], number: int, commit: Commit, partition_count: int) -> None:
    """Add the rows that most commits do not bring."""
    run_id = commit.run_id

    def add(section: str, rows: Iterable[tuple[Any, ...]]) -> None:
        rest.setdefault(section, []).extend((number, *row) for row in rows)

    if not commit.expected_seq and commit.row.tags != b"{}":
        add("tag", ((run_id, name, value, commit.row.created_at) for name, value in _read_tags(commit)))
    if commit.timers_cleared or commit.timers_set:
        due = dict(commit.timers_set)  # cleared first, then set: a timer that is set need not be cleared
        if cleared := set(commit.timers_cleared) - due.keys():
            add("clear", ((run_id, timer_id) for timer_id in sorted(cleared)))
        if due:
            add("timer", ((run_id, timer_id, at, commit.row.partition) for timer_id, at in due.items()))
    if commit.snapshot is not None:
        add("snapshot", [(run_id, commit.snapshot.seq, commit.snapshot.version, commit.snapshot.body)])
    if commit.approvals:
        approvals = {row.approval_id: row for row in commit.approvals}
        add("approval", map(msgspec.structs.astuple, approvals.values()))
    if commit.dead_letters:
        letters = {row.dead_letter_id: row for row in commit.dead_letters}
        add("letter", map(msgspec.structs.astuple, letters.values()))
    if commit.triggers:
        triggers = {(row.tenant, row.name): row for row in commit.triggers}
        add("trigger", map(msgspec.structs.astuple, triggers.values()))
    if commit.subscriptions or commit.subscriptions_cleared:
        places = {one.place: one for one in commit.subscriptions}
        if cleared := set(commit.subscriptions_cleared) - places.keys():
            add("unsubscribe", ((place,) for place in sorted(cleared)))
        if places:
            add("subscribe", ((*_subscribed(one), commit.row.partition) for one in places.values()))
    if commit.occurrences:
        add("occurrence", (msgspec.structs.astuple(one)[1:] for one in commit.occurrences))
    if commit.ledger:
        add("ledger", map(msgspec.structs.astuple, commit.ledger))
    if commit.entries:
        add("entry", map(msgspec.structs.astuple, commit.entries))
    if commit.command_answers:
        add("answer", dict(reversed(commit.command_answers)).items())  # the first answer stands
    if commit.notices_consumed:
        add("consume", ((run_id, notice_id) for notice_id in commit.notices_consumed))
    if commit.notices:
        add("notice", ((partition_of(to, partition_count), to, run_id, body) for to, body in commit.notices))


def _subscribed(one: Subscription) -> tuple[Any, ...]:
    return (one.tenant, one.topic, one.key, one.run_id, one.place, one.since, one.since_at)


def _read_tags(commit: Commit) -> Iterable[tuple[bytes, bytes]]:
    try:
        tags = _tags(commit.row.tags)
    except msgspec.MsgspecError as error:
        raise InvalidCommit(f"run {commit.run_id}: its tags are not a JSON object of strings: {error}") from error
    return ((as_bytes(name), as_bytes(value)) for name, value in tags.items())


# -- answers


async def _explain(
    connection: Connection, commits: Sequence[Commit], places: Sequence[int], answers: dict[int, Appended]
) -> list[int]:
    """Answer the commits that were not accepted. Returns the places of those that nothing refuses any more."""
    chosen = [commits[place] for place in places]
    parameters: Mapping[str, object] = {
        "numbers": list(places),
        "run_ids": [commit.run_id for commit in chosen],
        "seqs": [_last(commit) for commit in chosen],
        "partitions": [None if commit.epoch is None else commit.epoch.partition for commit in chosen],
        "tenants": [None if commit.idempotency is None else commit.idempotency.tenant for commit in chosen],
        "keys": [None if commit.idempotency is None else as_bytes(commit.idempotency.key) for commit in chosen],
    }
    query, arguments = bind("append_verdicts", parameters)
    again = []
    for row in await connection.fetch(query, *arguments):
        answer = _answer(commits[row[0]], row)
        if answer is None:
            again.append(row[0])
        else:
            answers[row[0]] = answer
    return sorted(again, key=lambda place: commits[place].run_id)


def _answer(commit: Commit, row: Row) -> Appended | None:
    """The answer to a refused commit: the guards in the order of the port. None when no guard refuses it any more."""
    _, seq, commit_id, commit_at_last, epoch, incarnation, key_run_id, key_body_hash = row
    if commit.commit_id == commit_id or (commit.events and commit.commit_id == commit_at_last):
        return Accepted(_last(commit))
    lost_epoch = commit.epoch is not None and commit.epoch.epoch != epoch
    if lost_epoch or commit.incarnation not in {None, incarnation}:
        return Fenced(epoch, incarnation)
    if commit.expected_seq == 0:
        if key_run_id is not None and commit.idempotency is not None:
            return Exists(key_run_id, same_body=key_body_hash == commit.idempotency.body_hash)
        return None if seq is None else Exists(commit.run_id, same_body=False)
    if seq is None:
        return Conflict(0, "")
    return None if seq == commit.expected_seq else Conflict(seq, commit_id)
