"""A run in a coordinator's memory: its state, what is durable of it, and what the decision under way will write.

Owns loading (snapshot, then events) and the translation of decisions into journal commits. Knows nothing of batches.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Any

import msgspec

from perdure.blobs import INLINE_BYTES, BlobDamaged, BlobMissing, BlobStore, BlobStoreUnavailable
from perdure.clock import Clock, system
from perdure.errors import PerdureError, StoreUnavailable
from perdure.journal import (
    ApprovalRow,
    Commit,
    DeadLetterRow,
    Journal,
    RunRecord,
    RunRow,
    Snapshot,
    StoredEvent,
    partition_of,
)
from perdure.kernel import commands as c
from perdure.kernel import events as e
from perdure.kernel import snapshot
from perdure.kernel.address import Address
from perdure.kernel.evolve import evolve
from perdure.kernel.segments import HoldsSegments, has_refs, pack, refuse, show, unpack
from perdure.kernel.state import OPEN, TERMINAL, Activation, IntegrityError, NodeState, RunState, State
from perdure.model import ir as irs
from perdure.model.ir import IR
from perdure.routing.errors import NotAtHand

N = NodeState
logger = logging.getLogger("perdure.loaded")

SNAPSHOT_EVERY = 1000
"""Events between snapshots of one run, at least (PROTOCOL 5)."""
_READ = 2000
MOST_CHILDREN = 10_000
"""Children that are looked at when a run is written, to see whether one of them is still waited for."""
LARGE_BYTES = 256 * 1024
"""Of a snapshot, or of events, that are read in one go on the loop."""


class NeedsDefinition(NotAtHand):
    """A run's IR is kept as a blob and must be fetched first."""

    code = "needs_definition"

    def __init__(self, name: str) -> None:
        super().__init__(f"definition:{name}", f"definition {name} is kept as a blob and must be fetched first")
        self.name = name


MOST_IRS = 2000
"""IRs in memory; beyond that the one that was added first goes."""


class Library:
    """IRs by hash, shared by all runs of a process. Large ones are kept as blobs."""

    def __init__(self, journal: Journal, blobs: BlobStore | None = None) -> None:
        self._journal = journal
        self._blobs = blobs
        self._irs: dict[str, IR] = {}
        self._reading: dict[str, asyncio.Lock] = {}
        self._lost: dict[str, PerdureError] = {}
        """What was looked for and is not there; told once, since it may be put again."""

    def add(self, ir: IR) -> None:
        self._irs.setdefault(ir.hash, ir)
        while len(self._irs) > MOST_IRS:  # runs in memory keep theirs
            del self._irs[next(iter(self._irs))]

    async def get(self, name: str) -> IR:
        found = self._irs.get(name)
        if found is None:
            try:
                async with self._reading.setdefault(
                    name, asyncio.Lock()
                ):  # many runs of a new workflow may begin at once
                    found = self._irs.get(name) or self._keep(name, await self.read(name))
            finally:
                self._reading.pop(name, None)
        return found

    async def get_now(self, name: str) -> IR:
        """The same for a coordinator, which waits for no blob: raises NeedsDefinition instead."""
        found = self._irs.get(name)
        if found is None:
            if name in self._lost:
                raise self._lost.pop(name)
            stored = await self._journal.get_definition(name)
            if stored.kind.endswith(_AS_BLOB):
                raise NeedsDefinition(name)
            found = self._keep(name, stored.body)
        return found

    def _keep(self, name: str, body: bytes) -> IR:
        """One for all runs, whoever reads it first."""
        found = self._irs.get(name)
        if found is None:
            found = irs.decode(body)
            self.add(found)
        return found

    async def fetch(self, name: str) -> None:
        """See to it that `get_now` knows it, or why it cannot be had. Raises StoreUnavailable."""
        try:
            await self.get(name)
        except (BlobMissing, BlobDamaged) as error:
            self._lost[name] = error

    async def put(self, name: str, kind: str, body: bytes) -> None:
        """Keep a definition under its name, before anything refers to it."""
        if len(body) > INLINE_BYTES and self._blobs is not None:
            kind, body = f"{kind}{_AS_BLOB}", (await self._blobs.put(DEFINITIONS, body)).encode()
        await self._journal.put_definition(name, kind, body)

    async def has_blob(self, tenant: str, ref: str) -> bool:
        """Raises StoreUnavailable when nobody can say."""
        if self._blobs is None:
            return False
        try:
            await self._blobs.stat(tenant, ref)
        except BlobMissing:
            return False
        return True

    async def read(self, name: str) -> bytes:
        found = await self._journal.get_definition(name)
        if not found.kind.endswith(_AS_BLOB):
            return found.body
        if self._blobs is None:
            raise BlobStoreUnavailable(f"definition {name} is kept as a blob, and there is no blob store here")
        return await self._blobs.get(DEFINITIONS, found.body.decode())


async def database_identity(journal: Journal, clock: Clock) -> str:
    """What tells this database from any other, made when it is first asked for."""
    await journal.put_definition(_IDENTITY, "identity", clock.new_id().encode())
    return (await journal.get_definition(_IDENTITY)).body.decode()


_IDENTITY = "perdure:database"

DEFINITIONS = "perdure:definitions"
"""The tenant whose blobs definitions are. They are named by hash and belong to all who know it, as the journal has them."""
_AS_BLOB = ":blob"


class Loaded:
    __slots__ = (
        "commit_id",
        "durable_seq",
        "effects",
        "events",
        "inherited",
        "notices",
        "notices_consumed",
        "open_approvals",
        "over",
        "parked",
        "partition",
        "pins",
        "snapshot_seq",
        "state",
        "timers",
    )

    def __init__(self, state: State, partitions: int, snapshot_seq: int = 0) -> None:
        self.state = state
        self.durable_seq = state.seq
        self.snapshot_seq = snapshot_seq
        self.partition = partition_of(state.run_id, partitions) if state.run_id else 0
        self.events: list[Any] = []
        self.effects: list[c.Effect] = []
        self.timers: dict[str, float | None] = {}
        self.notices: list[tuple[str, bytes]] = []
        self.notices_consumed: list[int] = []
        self.commit_id = ""
        self.open_approvals = {name for name, approval in state.approvals.items() if approval.state == "pending"}
        self.parked = {
            letter_id(state, a): dead_letter_row(state, a, "pending", 0.0)
            for a in state.activations.values()
            if is_parked(a)
        }
        self.over: dict[tuple[str, tuple[int, ...], int], list[Any]] = {}
        """Rendered `over` lists of maps under way, by node, scope and attempt."""
        self.pins = 0
        """Tasks of this run in the dispatcher: it may not leave memory."""
        self.inherited = False
        """Another process had it: its attempts may be with workers, and only the transport knows which."""

    @property
    def busy(self) -> bool:
        tally = self.state.tally
        return bool(self.pins or tally.get(N.QUEUED) or tally.get(N.RUNNING) or self.events or self.effects)

    def take(self, decision: c.Decision) -> None:
        self.events.extend(decision.events)
        for effect in decision.effects:
            if isinstance(effect, c.SetTimer):
                self.timers[effect.timer] = effect.due_at
            elif isinstance(effect, c.ClearTimer):
                self.timers[effect.timer] = None
            else:
                self.effects.append(effect)
                self._notice(effect)

    def commit(self, commit_id: str, incarnation: int | None) -> Commit:
        """What the decisions taken since the last commit write."""
        state = self.state
        self.commit_id = commit_id
        taken = None
        if self._wants_snapshot():
            taken = Snapshot(state.seq, snapshot.SNAPSHOT_VERSION, snapshot.encode(state))
        return Commit(
            run_id=state.run_id,
            expected_seq=self.durable_seq,
            commit_id=commit_id,
            row=row_of(state, self.partition),
            events=tuple(StoredEvent(event.seq, event.type, event.at, e.encode(event)) for event in self.events),
            timers_set=tuple((name, due_at) for name, due_at in self.timers.items() if due_at is not None),
            timers_cleared=tuple(name for name, due_at in self.timers.items() if due_at is None),
            snapshot=taken,
            approvals=self._approvals(),
            dead_letters=self._dead_letters(),
            notices=tuple(self.notices),
            notices_consumed=tuple(self.notices_consumed),
            incarnation=incarnation,
        )

    def _wants_snapshot(self) -> bool:
        """A snapshot costs as much as the state is large, so a large state takes fewer: constant cost per event."""
        return self.state.seq - self.snapshot_seq >= max(SNAPSHOT_EVERY, len(self.state.activations))

    def committed(self) -> None:
        """The commit is durable."""
        state = self.state
        self.durable_seq = state.seq
        if self._wants_snapshot():
            self.snapshot_seq = state.seq
        self.events.clear()
        self.effects.clear()
        self.timers.clear()
        self.notices.clear()
        self.notices_consumed.clear()

    # -- projections ---------------------------------------------------------------------------------------------------

    def _approvals(self) -> tuple[ApprovalRow, ...]:
        changed = {event.approval for event in self.events if event.type.startswith("approval.")}
        if not changed and not self.open_approvals:
            return ()
        state, rows = self.state, []
        for name in sorted(changed | self.open_approvals):
            approval = state.approvals[name]
            if name not in changed and approval.state == "pending":
                continue
            rows.append(approval_row(state, name, state.created_at if not self.events else self.events[-1].at))
            if approval.state == "pending":
                self.open_approvals.add(name)
            else:
                self.open_approvals.discard(name)
        return tuple(rows)

    def _dead_letters(self) -> tuple[DeadLetterRow, ...]:
        state = self.state
        touched = {(event.node, event.scope, event.item) for event in self.events if isinstance(event, e.NodeParked)}
        if not touched and not self.parked:
            return ()
        rows, at = [], self.events[-1].at if self.events else 0.0
        for node, scope, item in sorted(touched, key=str):
            activation = state.find(node, scope, item)
            if activation is not None and is_parked(activation):
                row = self.parked[letter_id(state, activation)] = dead_letter_row(state, activation, "pending", at)
                rows.append(row)
        if self.parked and any(not isinstance(event, e.NodeParked) for event in self.events):
            rows.extend(self._resolved_letters(at))
        return tuple(rows)

    def _resolved_letters(self, at: float) -> list[DeadLetterRow]:
        state = self.state
        by_name = {letter_id(state, a): a for a in state.activations.values()}
        over = sorted(name for name in self.parked if name not in by_name or not is_parked(by_name[name]))
        asked = _asked(state.run_id, self.events)
        return [
            resolve_letter(self.parked.pop(name), by_name.get(name), at, asked.get(name, asked[""])) for name in over
        ]

    def _notice(self, effect: c.Effect) -> None:
        """The end of a run, told to its parent or its continuation in its own terminal transaction (PROTOCOL 12).

        Written down as it is decided: later in the same batch the run may be retried, and no longer be at an end.
        """
        if isinstance(effect, c.NotifyParent):
            self.notices.append((effect.parent[0], child_notice(self.state)))
        elif isinstance(effect, c.ContinueRun):
            self.notices.append((effect.run_id, continuation_notice(self.state, effect)))


def child_notice(state: State, generation: int = 0) -> bytes:
    """How a child ended; `generation` when its parent asks for a later one than there will ever be."""
    body = {
        "child": state.run_id,
        "generation": max(state.generation, generation),
        "state": state.state.value,
        "output": state.outputs,
        "output_ref": state.outputs_ref,
        # Which of its nodes failed is the child's to say; for its parent it is the node that called it.
        "error": None if state.error is None else msgspec.structs.replace(state.error, node="", scope=(), item=None),
        "orphaned": state.orphaned,
    }
    if has_refs(state.outputs):
        body |= {"output": pack(state.outputs, secrets=False), "refs": True}
    return msgspec.json.encode(body)


class Continuation(msgspec.Struct, frozen=True, kw_only=True):
    """What an endless run leaves to the run that continues it."""

    continues: str
    ir: str
    workflow_version: int
    inputs: Any
    tags: dict[str, str]
    tenant: str
    deadline_seconds: float | None
    adopted: tuple[c.Adopted, ...]
    signals: tuple[tuple[str, Any], ...]
    signals_seen: tuple[str, ...] = ()
    pauses: tuple[tuple[str, str], ...] = ()
    alias: str = ""
    correlation_id: str = ""
    sealed_for: str = ""
    by: str = ""
    """Who started the first of them: they asked for this one too."""
    refs: bool = False
    """Its values hold references to blobs and are packed."""

    def start(self, run_id: str, at: float, ir: IR) -> c.Start:
        return c.Start(
            at=at,
            run_id=run_id,
            ir=ir,
            workflow_version=self.workflow_version,
            inputs=self.inputs,
            tags=self.tags,
            tenant=self.tenant,
            deadline_seconds=self.deadline_seconds,
            adopted=self.adopted,
            signals=self.signals,
            signals_seen=self.signals_seen,
            pauses=self.pauses,
            origin=(self.continues, ""),
            by=self.by or f"run {self.continues}",
            alias=self.alias,
            correlation_id=self.correlation_id,
            sealed_for=self.sealed_for,
        )


def continuation_notice(state: State, effect: c.ContinueRun) -> bytes:
    continuation = Continuation(
        continues=state.run_id,
        ir=state.ir_hashes[-1],
        workflow_version=state.workflow_version,
        inputs=state.inputs,
        tags=state.tags,
        tenant=state.tenant,
        deadline_seconds=state.deadline_seconds,
        adopted=effect.adopted,
        signals=effect.signals,
        signals_seen=effect.signals_seen,
        pauses=effect.pauses,
        alias=state.alias,
        correlation_id=state.correlation_id,
        sealed_for=state.seal_name,
        by=state.submitted_by,
    )
    try:
        return _encoder.encode(continuation)
    except HoldsSegments:
        return _encoder.encode(msgspec.structs.replace(_each_value(continuation, pack), refs=True))


def read_continuation(body: bytes) -> Continuation:
    """Raises msgspec.ValidationError for what is none."""
    found = _decode_continuation(body)
    return _each_value(found, unpack) if found.refs else found


def _each_value(continuation: Continuation, change: Callable[..., Any]) -> Continuation:
    return msgspec.structs.replace(
        continuation,
        inputs=change(continuation.inputs, secrets=False),
        adopted=tuple(
            msgspec.structs.replace(one, output=change(one.output, secrets=False)) for one in continuation.adopted
        ),
        signals=tuple((name, change(payload, secrets=False)) for name, payload in continuation.signals),
    )


_encoder = msgspec.json.Encoder(enc_hook=refuse)
_decode_continuation = msgspec.json.Decoder(Continuation).decode


def is_parked(activation: Activation) -> bool:
    return activation.state is N.PARKED or (activation.undo is not None and activation.undo.state == "parked")


def letter_id(state: State, activation: Activation) -> str:
    return state.address(activation).dead_letter_id


def resolve_letter(
    row: DeadLetterRow, activation: Activation | None, at: float, asked: tuple[str, str] = ("", "")
) -> DeadLetterRow:
    """What is no longer parked. `asked`: what became of it and by whom, as far as somebody asked for that; else it is tried
    again or was given up with its run."""
    again = activation is not None and activation.state in OPEN
    body = msgspec.json.encode({**msgspec.json.decode(row.body), "by": asked[1] or None})
    state = asked[0] or ("requeued" if again else "discarded")
    return msgspec.structs.replace(row, state=state, resolved_at=at, body=body)


def _asked(run_id: str, events: Iterable[e.Event]) -> dict[str, tuple[str, str]]:
    """What was asked for, by dead letter; under the empty name, who changed the whole run."""
    found = {"": ("", "")}
    for event in events:
        if isinstance(event, e.NodeRequeued | e.NodeDiscarded):
            state = "requeued" if isinstance(event, e.NodeRequeued) else "discarded"
            found[Address(run_id, event.node, event.scope, event.item).dead_letter_id] = (state, event.by)
        elif isinstance(event, e.RunRetried | e.RunCancelling | e.RunCancelled) and event.by:
            found[""] = ("", event.by)
    return found


def dead_letter_row(state: State, activation: Activation, status: str, at: float) -> DeadLetterRow:
    undo = activation.undo is not None and activation.undo.state == "parked"
    body = {
        "scope": activation.scope,
        "item": activation.item_index,
        "attempt": activation.tries,
        "undo": undo,
        "error": activation.error,
        "by": None,
        "seq": state.seq,
    }
    return DeadLetterRow(
        dead_letter_id=letter_id(state, activation),
        run_id=state.run_id,
        node=state.name(activation.node),
        state=status,
        tenant=state.tenant,
        created_at=at,
        body=msgspec.json.encode(body),
    )


def approval_row(state: State, name: str, at: float) -> ApprovalRow:
    approval = state.approvals[name]
    activation = state.activations[approval.key]
    body = {
        "approvers": approval.approvers,
        "quorum": approval.quorum,
        "votes": approval.votes,
        "on_timeout": approval.on_timeout,
        "escalated": approval.escalated,
        "shown": show(approval.shown),
        "scope": activation.scope,
        "comments": approval.comments,
    }
    if approval.notify is not None:
        body = {
            "notify": approval.notify,
            **body,
        }  # first: databases know by that who is to be told (WANTS_NOTIFICATION)
    return ApprovalRow(
        approval_id=name,
        run_id=state.run_id,
        node=state.name(activation.node),
        state=approval.state,
        tenant=state.tenant,
        requested_at=approval.requested_at,
        expires_at=approval.expires_at,
        decided_at=None if approval.state == "pending" else at,
        body=msgspec.json.encode(body),
    )


def row_of(state: State, partition: int) -> RunRow:
    return RunRow(
        state=state.state.value,
        workflow=state.workflow,
        workflow_version=state.workflow_version,
        ir=state.ir_hashes[-1],
        partition=partition,
        tenant=state.tenant,
        tags=msgspec.json.encode(state.tags) if state.tags else b"{}",
        generation=state.generation,
        counter=state.counter,
        # A parent may have died before its child was durable: it must ask for it again.
        busy=_is_busy(state),
        created_at=state.created_at,
        started_at=state.started_at,
        ended_at=state.ended_at if state.state in TERMINAL else None,
        error=None if state.error is None else msgspec.json.encode(state.error),
        parent=None if state.parent is None else state.parent[0],
    )


def _is_busy(state: State) -> bool:
    """Whoever takes the run over has something to send for it, or to look for. Held while running: for want of a worker."""
    tally = state.tally
    held = state.state is RunState.RUNNING and tally.get(N.HELD)
    at_work = tally.get(N.QUEUED) or tally.get(N.RUNNING) or held or _undoing(state)
    return bool(at_work or (tally.get(N.WAITING) and _waits_for_child(state)))


def only_waits(state: State) -> bool:
    """It is under way, and nothing of it is with a worker or in a child. What its row says is the same (`is_waiting`)."""
    return state.state is RunState.RUNNING and not _is_busy(state)


def _waits_for_child(state: State) -> bool:
    """One that has ended needs nobody. The newest first; of very many not all are looked at, and one is taken to be there."""
    newest = islice(reversed(state.children.values()), MOST_CHILDREN)
    return len(state.children) > MOST_CHILDREN or any(state.activations[key].state is N.WAITING for key in newest)


def _undoing(state: State) -> int:
    if not state.plan:
        return 0
    undo = state.activations[state.plan[-1]].undo
    return int(undo is not None and undo.state in ("queued", "running"))


async def load(journal: Journal, library: Library, record: RunRecord) -> State:
    """The state a journal folds to, from its newest readable snapshot on."""
    return await load_from(journal, library.get, record, await journal.find_snapshot(record.run_id))


async def load_from(
    journal: Journal, get_ir: Callable[[str], Awaitable[IR]], record: RunRecord, kept: Snapshot | None
) -> State:
    run_id = record.run_id
    state: State | None = None
    if kept is not None and kept.version == snapshot.SNAPSHOT_VERSION:
        try:
            names = snapshot.hashes(kept.body)
            irs = {name: await get_ir(name) for name in names}
            if len(kept.body) > LARGE_BYTES:  # a third of a second for a map of 100,000 items
                state = await asyncio.to_thread(snapshot.decode, kept.body, irs)
            else:
                state = snapshot.decode(kept.body, irs)
        except (StoreUnavailable, NotAtHand):
            raise
        except Exception as error:  # noqa: BLE001  whatever is wrong with it, the events decide
            logger.warning("run %s: its snapshot at %d cannot be read: %r", run_id, kept.seq, error)
    if state is None:
        state = State(run_id=run_id)
    after = state.seq
    weight = 0
    while True:
        stored = await journal.read_events(run_id, after, _READ)
        for one in stored:
            weight += len(one.body)
            if weight > LARGE_BYTES:  # how many events are read at once says nothing of their size
                weight = 0
                await system.sleep(0)  # no time: others have their turn
            event = e.decode(one.body)
            if isinstance(event, e.RunCreated | e.RunPatched) and event.ir not in state.library:
                state.library[event.ir] = await get_ir(event.ir)
            evolve(state, event)
        if len(stored) < _READ:
            if state.seq < record.seq:
                raise IntegrityError(f"run {run_id}: the journal holds {state.seq} of {record.seq} events")
            return state
        after = stored[-1].seq
