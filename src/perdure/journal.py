"""The journal: the only truth about runs. This file is the port; its adapters stand in `journals/`.

It owns the words of storage and the protocol of an append. It must not know what an event means: bodies are bytes,
states are strings, and an adapter *guards* (sequence, epoch, incarnation, existence, commit id) but never decides.

An append carries commits, usually of many runs, and is one transaction with one answer per commit:

1. A commit names the sequence number its writer has seen last, `expected_seq`. The number on the run row is compared
   and set in the append; that is the fence (PROTOCOL 1). `expected_seq` 0 creates the run.
2. A commit that is not `Accepted` changes nothing; the others of the same append commit all the same (PROTOCOL 4).
   Several commits of one run in one append are taken in order.
3. A commit has an id. The same commit appended again, however late, is `Accepted` and changes nothing (J7). A
   *different* commit at the same sequence is a `Conflict`, which says how far the run is and which commit brought it
   there. A commit without events is remembered only until the next one of its run.
4. The guards are asked in this order: the commit id (`Accepted`), incarnation and epoch (`Fenced`), the idempotency key
   and the existence of the run (`Exists`), the sequence number (`Conflict`).
5. Everything a commit brings (events, run row, timers, snapshot, approvals, dead letters, triggers, notices, answers) is
   written in that transaction or not at all, and is durable before the answer is given.
6. A call ends in one of three ways. It returns: the append is done, and the answers say what became of each commit. It
   raises `JournalUnavailable`: nothing was written. It raises `OutcomeUnknown`, or the caller was cancelled: perhaps it
   was written. Then the caller appends the same commits again, or reads `find_commit`, before it does anything else
   (PROTOCOL 3).

A run is *active* while its row has no `ended_at` and no quarantine. Reads see every append that was answered before
they began.

    perdure.errors.StoreUnavailable
    ├── JournalUnavailable     nothing was written
    │   ├── JournalBusy        another process has been writing for too long; try again
    │   ├── JournalFull        no space left
    │   ├── JournalReadOnly    the journal may not be written to
    │   ├── JournalCorrupt     the file is damaged, or no journal at all
    │   └── JournalClosed      `close` was called
    └── OutcomeUnknown         perhaps it was written: read back, then decide
    perdure.errors.SchemaTooNew   a later version of Perdure made the database
    perdure.errors.SchemaTooOld   an earlier version made it, and this adapter does not migrate by itself
    perdure.errors.NotFound       a `get_` found nothing
    JournalReplaced               other files stand where the journal's stood; the process must end
    InvalidCommit, InvalidCursor   the caller's mistake
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from perdure.archive import Archive
from perdure.errors import PerdureError, StoreUnavailable
from perdure.kernel.run_ids import root_of
from perdure.leases import Leases
from perdure.purses import PurseReader
from perdure.records import TRIGGER_WORKFLOW as TRIGGER_WORKFLOW  # noqa: PLC0414  a word of this port
from perdure.records import AgentEntry as AgentEntry  # noqa: PLC0414  a word of this port
from perdure.records import LedgerRow as LedgerRow  # noqa: PLC0414  a word of this port
from perdure.records import Occurrence as Occurrence  # noqa: PLC0414  a word of this port
from perdure.records import Page as Page  # noqa: PLC0414  a word of this port
from perdure.records import RunRecord as RunRecord  # noqa: PLC0414  a word of this port
from perdure.records import RunRow as RunRow  # noqa: PLC0414  a word of this port
from perdure.records import Subscription as Subscription  # noqa: PLC0414  a word of this port
from perdure.records import Topic as Topic  # noqa: PLC0414  a word of this port
from perdure.records import TriggerRow as TriggerRow  # noqa: PLC0414  a word of this port
from perdure.topic_log import TopicLog

# -- errors ------------------------------------------------------------------------------------------------------------


class JournalUnavailable(StoreUnavailable):
    """The journal did not take the append: nothing was written."""

    code = "journal_unavailable"


class JournalBusy(JournalUnavailable):
    code = "journal_busy"


class JournalFull(JournalUnavailable):
    code = "journal_full"


class JournalReadOnly(JournalUnavailable):
    code = "journal_read_only"


class JournalCorrupt(JournalUnavailable):
    code = "journal_corrupt"


class JournalClosed(JournalUnavailable):
    code = "journal_closed"


class JournalReplaced(PerdureError):
    """Other files stand where the journal's stood: nothing more is written, and no second try helps. The process that
    has the journal open must end."""

    code = "journal_replaced"
    status = 503


class OutcomeUnknown(StoreUnavailable):
    """Perhaps the commit was written. Read back the commit id, or append the same commit again."""

    code = "outcome_unknown"


class InvalidCommit(PerdureError):
    """The commit contradicts itself: a mistake in the program, never a matter of timing."""

    code = "invalid_commit"


class InvalidCursor(PerdureError):
    code = "invalid_cursor"
    status = 400


# -- what is stored ----------------------------------------------------------------------------------------------------


class StoredEvent(msgspec.Struct, frozen=True, gc=False):
    """One event. `body` is its whole encoding; `type` and `at` are repeated for queries."""

    seq: int
    type: str
    at: float
    body: bytes


class Snapshot(msgspec.Struct, frozen=True):
    """A state as of `seq`, in the writer's encoding `version`. It may vanish or be unreadable: the events decide."""

    seq: int
    version: int
    body: bytes


class ApprovalRow(msgspec.Struct, frozen=True, kw_only=True):
    approval_id: str
    run_id: str
    node: str
    state: str
    tenant: str = "default"
    requested_at: float
    expires_at: float | None = None
    decided_at: float | None = None
    body: bytes = b"{}"


class DeadLetterRow(msgspec.Struct, frozen=True, kw_only=True):
    dead_letter_id: str
    run_id: str
    node: str
    state: str
    tenant: str = "default"
    created_at: float
    resolved_at: float | None = None
    body: bytes = b"{}"


class IdempotencyKey(msgspec.Struct, frozen=True):
    """A caller's idempotency key, written with the run it makes (PROTOCOL 11)."""

    tenant: str
    key: str
    body_hash: str


class Epoch(msgspec.Struct, frozen=True):
    """The right to write to a partition, valid until another coordinator raises its epoch further."""

    partition: int
    epoch: int


class Commit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one decision writes about one run."""

    run_id: str
    expected_seq: int
    commit_id: str
    row: RunRow
    events: tuple[StoredEvent, ...] = ()
    timers_set: tuple[tuple[str, float], ...] = ()
    """(timer id, due at). Setting a timer again moves it. Timers are cleared first, then set."""
    timers_cleared: tuple[str, ...] = ()
    snapshot: Snapshot | None = None
    approvals: tuple[ApprovalRow, ...] = ()
    dead_letters: tuple[DeadLetterRow, ...] = ()
    triggers: tuple[TriggerRow, ...] = ()
    """The row of the trigger that this run is. It takes the place of that of an earlier life, never of a later one."""
    subscriptions: tuple[Subscription, ...] = ()
    """Where this run takes in what happens. Setting one again changes it, also one of another run. They are cleared first, then set."""
    subscriptions_cleared: tuple[str, ...] = ()
    """Their places."""
    occurrences: tuple[Occurrence, ...] = ()
    """What happens with this commit. It is kept where a run has subscribed to its topic."""
    notices: tuple[tuple[str, bytes], ...] = ()
    """(run to tell, body)."""
    notices_consumed: tuple[int, ...] = ()
    """Ids of notices to this run that this commit has taken in; they are deleted."""
    ledger: tuple[LedgerRow, ...] = ()
    """What the run has used since its commit before, added up in the same transaction (B2)."""
    entries: tuple[AgentEntry, ...] = ()
    """What the agents that it completes leave for later runs. What is there already stays."""
    command_answers: tuple[tuple[str, bytes], ...] = ()
    """(command id, answer)."""
    idempotency: IdempotencyKey | None = None
    """Given only with `expected_seq` 0."""
    epoch: Epoch | None = None
    incarnation: int | None = None


# -- what an append answers --------------------------------------------------------------------------------------------


class Accepted(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The commit is durable, by this call or an earlier one with the same commit id. `seq` is its last number."""

    seq: int


class Conflict(msgspec.Struct, frozen=True, tag=True):
    """The run is not at `expected_seq`. Seq 0 and an empty commit id mean that there is no such run."""

    actual_seq: int
    commit_id: str


class Exists(msgspec.Struct, frozen=True, tag=True):
    """The idempotency key or the run id is taken. `same_body` is true only for a key with the same body hash."""

    run_id: str
    same_body: bool


class Fenced(msgspec.Struct, frozen=True, tag=True):
    """The writer has lost its right; the fields are its partition's epoch and the incarnation now."""

    epoch: int
    incarnation: int


Appended: TypeAlias = Accepted | Conflict | Exists | Fenced


# -- what is read ------------------------------------------------------------------------------------------------------


class LastCommit(msgspec.Struct, frozen=True):
    seq: int
    commit_id: str


class Outline(msgspec.Struct, frozen=True):
    """What a list shows of a run beside its row."""

    first: bytes | None
    """The body of the run's first event."""
    last_at: float | None
    """When the run's last event was."""
    letters: int
    """How many of the run's dead letters are in the state that was asked for."""


class DueTimer(msgspec.Struct, frozen=True):
    run_id: str
    timer_id: str
    due_at: float


class Notice(msgspec.Struct, frozen=True):
    """A message to a run, written by another run's commit."""

    notice_id: int
    run_id: str
    from_run_id: str
    body: bytes


class Command(msgspec.Struct, frozen=True):
    """A request by another process, waiting for the holder. `position` orders commands. The run need not exist yet."""

    position: int
    command_id: str
    run_id: str
    put_at: float
    body: bytes


class Definition(msgspec.Struct, frozen=True):
    hash: str
    kind: str
    body: bytes


class WorkflowVersion(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    version: int
    definition_hash: str
    ir_hash: str
    tenant: str
    registered_at: float


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on runs; all must hold. `since` (inclusive) and `until` (exclusive) are about `created_at`, and those of
    the end about `ended_at`."""

    tenant: str | None = None
    states: tuple[str, ...] = ()
    workflow: str | None = None
    tag: tuple[str, str] | None = None
    since: float | None = None
    until: float | None = None
    parent: str | None = None
    top: bool = False
    """Only runs that have no parent."""
    plain: bool = False
    """Without the runs that triggers are."""
    may_wait: bool = False
    """Only runs that may have nothing to do but wait: those without work out with workers, and those with open children,
    whose work is not known here. Whether one of them really waits, its state says."""
    quarantined: bool | None = None
    version: int | None = None
    error: str | None = None
    """Only runs with an error of this code."""
    id_prefix: str | None = None
    """Only the highest thousand ids that begin so."""
    ended_since: float | None = None
    ended_until: float | None = None
    by_end: bool = False
    """Only runs that have ended, in the order of their ends."""
    oldest: bool = False
    """The oldest first."""


class RunCount(msgspec.Struct, frozen=True):
    """How many runs one group has in one stretch of time."""

    group: str | None
    """The state, workflow or code of the error; None for no error, and where no groups were asked for."""
    bucket: int | None
    """The number of the stretch, counted from 1970; None where no stretches were asked for."""
    count: int


class HeldBy(msgspec.Struct, frozen=True):
    """The process that holds the journal instead. An unknown pid is 0, an unknown host empty."""

    pid: int
    host: str


class HolderLock(Protocol):
    """The right to be the one coordinator of a file. The operating system takes it back when the process dies."""

    def release(self) -> None: ...


EVERYTHING = RunFilter()


class Journal(TopicLog, PurseReader, Protocol):
    """The port of a journal, used from the event loop that opened it. `partitions` of None means all of them."""

    @property
    def partition_count(self) -> int: ...

    @property
    def archive(self) -> Archive | None:
        """What is kept beside the runs, in the same database; None if nothing is, and the journal cannot be served."""
        ...

    @property
    def leases(self) -> Leases | None:
        """How coordinators share the partitions; None if one process at a time holds all of them."""
        ...

    # runs
    async def append(self, commits: Sequence[Commit]) -> list[Appended]: ...
    async def get_run(self, run_id: str) -> RunRecord: ...
    async def find_run(self, run_id: str) -> RunRecord | None: ...
    async def find_commit(self, run_id: str) -> LastCommit | None: ...
    async def find_seqs(self, run_ids: Collection[str]) -> Mapping[str, int]: ...  # of each run that exists
    async def find_snapshot(self, run_id: str) -> Snapshot | None: ...

    async def find_outlines(self, run_ids: Collection[str], letter_state: str) -> Mapping[str, Outline]:
        """The outlines of those runs that exist."""
        ...

    async def read_events(self, run_id: str, after: int = 0, limit: int = 1000) -> list[StoredEvent]:
        """Events in order, those with a sequence number above `after`. An event that was read stays as it is (J3)."""
        ...

    async def list_runs(
        self, where: RunFilter = EVERYTHING, *, limit: int = 100, cursor: str | None = None
    ) -> Page[RunRecord]:
        """The runs that match, newest first unless the filter says otherwise."""
        ...

    async def count_runs(
        self,
        where: RunFilter = EVERYTHING,
        *,
        group: Literal["state", "workflow", "error"] | None = None,
        bucket: float | None = None,
        limit: int = 10_000,
    ) -> list[RunCount]:
        """How many of the newest `limit` runs that match there are, by group and by stretches of `bucket` seconds: of
        their creation, or with `by_end` of their end."""
        ...

    async def list_active_runs(
        self, partitions: Collection[int] | None = None, after: str = "", limit: int = 1000, *, busy: bool = False
    ) -> list[RunRecord]:
        """Active runs above `after`, by run id: without `ended_at` and not quarantined; with `busy`, only busy ones."""
        ...

    async def mark_quarantined(self, run_id: str, reason: str) -> None:
        """Make a run neither active nor woken by timers. Appends are guarded by the sequence alone, as before."""
        ...

    async def unquarantine(self, run_id: str) -> None: ...

    async def find_idempotency(self, tenant: str, key: str) -> tuple[str, str] | None: ...  # (run id, body hash)

    # timers
    async def list_due_timers(
        self,
        now: float,
        limit: int = 1000,
        partitions: Collection[int] | None = None,
        runs: Collection[str] | None = None,
    ) -> list[DueTimer]:
        """Timers due at `now` or before, oldest first, of runs that are not quarantined; of `runs` alone, if they are given."""
        ...

    async def next_timer(self, partitions: Collection[int] | None = None) -> float | None: ...

    # approvals and dead letters
    async def get_approval(self, approval_id: str) -> ApprovalRow: ...
    async def list_approvals(
        self,
        *,
        state: str | None = None,
        tenant: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[ApprovalRow]:
        """The approvals that match, oldest first."""
        ...

    async def get_dead_letter(self, dead_letter_id: str) -> DeadLetterRow: ...
    async def list_dead_letters(
        self,
        *,
        state: str | None = None,
        tenant: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[DeadLetterRow]:
        """The dead letters that match, oldest first."""
        ...

    # triggers
    async def find_trigger(self, tenant: str, name: str) -> TriggerRow | None:
        """The trigger of this name, or what is left of it when it was deleted."""
        ...

    async def find_hook(self, hook: str) -> TriggerRow | None:
        """The trigger, of whichever tenant, that is delivered to at this address; none that was deleted."""
        ...

    async def list_triggers(
        self,
        *,
        tenant: str | None = None,
        kind: str | None = None,
        state: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[TriggerRow]:
        """The triggers that match, by tenant and name; deleted ones only if that state is asked for."""
        ...

    async def count_triggers(self, tenant: str) -> int: ...  # without deleted ones

    # notices
    async def read_notices(
        self, partitions: Collection[int] | None = None, after: int = 0, limit: int = 1000
    ) -> list[Notice]: ...

    async def delete_notices(self, notice_ids: Sequence[int]) -> None: ...  # of runs that can take in no more

    # commands
    async def put_command(self, run_id: str, body: bytes, *, command_id: str | None = None) -> str:
        """Store a command; returns its id. With an id that was put before nothing happens, whatever the body."""
        ...

    async def read_commands(
        self, partitions: Collection[int] | None = None, after: int = 0, limit: int = 1000
    ) -> list[Command]:
        """Commands without an answer, in the order they were put."""
        ...

    async def answer_command(self, command_id: str, body: bytes) -> None:
        """Answer a command. The first answer stands."""
        ...

    async def find_answer(self, command_id: str) -> bytes | None: ...

    # definitions and workflows
    async def put_definition(self, definition_hash: str, kind: str, body: bytes) -> None: ...
    async def get_definition(self, definition_hash: str) -> Definition: ...

    async def register_workflow(self, name: str, definition_hash: str, *, ir_hash: str, tenant: str = "default") -> int:
        """Register a definition; returns its version number: the same as before if it is known, else the next one."""
        ...

    async def find_workflow(
        self, name: str, version: int | None = None, *, tenant: str = "default"
    ) -> WorkflowVersion | None:
        """The given version of a workflow; without a version, the highest."""
        ...

    async def list_workflows(
        self, *, tenant: str = "default", limit: int = 100, cursor: str | None = None
    ) -> Page[WorkflowVersion]:
        """The highest version of each workflow, by name."""
        ...

    async def list_workflow_versions(
        self, name: str, *, tenant: str = "default", limit: int = 100, cursor: str | None = None
    ) -> Page[WorkflowVersion]:
        """The versions of one workflow, highest first."""
        ...

    # who may write
    async def incarnation(self) -> int:
        """A number that grows when the database may have gone back in time; messages with an older one are refused."""
        ...

    async def raise_incarnation(self, by: int = 1) -> int: ...

    async def check_writable(self) -> None:
        """Write what means nothing, and raise what a write raises now: a full disk can still be read."""
        ...

    async def raise_epochs(self, partitions: Collection[int]) -> Mapping[int, int]:
        """Take these partitions over; returns the new epoch of each, which fences every earlier one."""
        ...

    async def hold(self) -> HolderLock | HeldBy:
        """Become the one coordinator, or learn which process is. Reading and putting commands need no hold."""
        ...

    # housekeeping
    async def prune_commands(self, answered_before: float) -> int:
        """Forget old answers, a bounded number at a time; returns how many, so 0 means there are no more."""
        ...

    async def close(self) -> None:
        """Finish what was accepted, refuse what comes after, leave no thread, connection, file or lock. Repeatable."""
        ...


def partition_of(run_id: str, partition_count: int) -> int:
    """The partition a run belongs to. A child shares its parent's, so that one coordinator decides for both. It is
    stored with every run, so it never changes."""
    return zlib.crc32(root_of(run_id).encode()) % partition_count


def check(commit: Commit) -> None:
    """Refuse a commit that contradicts itself, before it costs a transaction (J2)."""
    seq = commit.expected_seq
    if seq < 0:
        raise InvalidCommit(f"run {commit.run_id}: expected_seq is {seq}; it counts from 0")
    for event in commit.events:
        seq += 1
        if event.seq != seq:
            raise InvalidCommit(f"run {commit.run_id}: event {event.seq} stands where {seq} belongs; no gap, no repeat")
    if commit.expected_seq == 0 and not commit.events:
        raise InvalidCommit(f"run {commit.run_id}: a commit that creates a run needs at least one event")
    if commit.idempotency is not None and commit.expected_seq != 0:
        raise InvalidCommit(f"run {commit.run_id}: an idempotency key goes with the creation, not seq {seq}")
    rows: tuple[ApprovalRow | DeadLetterRow, ...] = (*commit.approvals, *commit.dead_letters)
    if rows and any(row.run_id != commit.run_id for row in rows):
        raise InvalidCommit(f"run {commit.run_id}: it carries an approval or a dead letter of another run")
    if commit.triggers and any(row.head != commit.run_id for row in commit.triggers):
        raise InvalidCommit(f"run {commit.run_id}: it carries the row of another trigger")
