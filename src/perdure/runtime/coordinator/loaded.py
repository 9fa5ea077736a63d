"""A run in a coordinator's memory: its state, how much of it is durable, and what the decisions under way will write.

Owns loading (snapshot, then events) and the translation of decisions into journal commits. Knows nothing of batches.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

from perdure.clock import system
from perdure.errors import StoreUnavailable
from perdure.expressions.errors import NotAtHand
from perdure.journal import (
    ApprovalRow,
    Commit,
    DeadLetterRow,
    Journal,
    JournalCorrupt,
    Occurrence,
    RunRecord,
    Snapshot,
    StoredEvent,
    TriggerRow,
    partition_of,
)
from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel import snapshot
from perdure.kernel.child_runs import open_children
from perdure.kernel.continuations import say_worry
from perdure.kernel.evolve import evolve
from perdure.kernel.lifecycle import IntegrityError, N
from perdure.kernel.state import State
from perdure.model.extremes import cost
from perdure.model.ir import IR
from perdure.runtime.coordinator.agent_memory import list_left_behind
from perdure.runtime.coordinator.continuations import child_notice, continuation_notice, stop_notice
from perdure.runtime.coordinator.library import Library
from perdure.runtime.coordinator.projections import (
    approval_row,
    asked_for,
    dead_letter_row,
    is_parked,
    letter_id,
    list_used,
    resolve_letter,
    row_of,
)
from perdure.runtime.coordinator.tasks.room import Room
from perdure.runtime.coordinator.triggers.firings import end_notice, start_notice
from perdure.runtime.coordinator.triggers.item_letters import find_item_letters, resolve_item_letter, touches_letters
from perdure.runtime.coordinator.triggers.subscriptions import find_left, subscriptions_after, subscriptions_of
from perdure.runtime.coordinator.triggers.topic_names import end_of_run
from perdure.runtime.coordinator.triggers.trigger_rows import trigger_row
from perdure.threads import aside

_ENDS = frozenset({e.RunCompleted, e.RunFailed, e.RunCancelled, e.RunRolledBack})
logger = logging.getLogger("perdure.loaded")

SNAPSHOT_EVERY = 1000
"""The fewest events between two snapshots of one run (PROTOCOL 5)."""
_READ = 2000
LARGEST_SNAPSHOT = 20 * 1024 * 1024
"""The bytes beyond which no snapshot is taken: to read so many holds up all threads for 50 ms. A map of 100,000 items has
17 MiB."""
LARGE_BYTES = 256 * 1024
"""The most bytes of a snapshot, or of events, that are read in one go on the loop."""


class Loaded:
    __slots__ = (
        "_encoded",
        "awaits",
        "commit_id",
        "counted",
        "durable_seq",
        "effects",
        "events",
        "grown",
        "inherited",
        "letters",
        "notices",
        "notices_consumed",
        "occurrences",
        "over",
        "parked",
        "partition",
        "pins",
        "room",
        "snapshot_seq",
        "state",
        "subscribed",
        "timers",
        "trigger",
    )

    def __init__(
        self, state: State, partitions: int, snapshot_seq: int = 0, snapshot_bytes: int = 0, room: Room | None = None
    ) -> None:
        self.state = state
        self.room = room or Room()
        self.grown = snapshot_bytes or state.bytes
        """Roughly the bytes of a snapshot taken now: those of the last one, and of all events written since."""
        self.durable_seq = state.seq
        self.snapshot_seq = snapshot_seq
        self.partition = partition_of(state.run_id, partitions) if state.run_id else 0
        self.events: list[Any] = []
        self.effects: list[fx.Effect] = []
        self.timers: dict[str, float | None] = {}
        self.notices: list[tuple[str, bytes]] = []
        self.notices_consumed: list[int] = []
        self.occurrences: list[Occurrence] = []
        self.subscribed = subscriptions_of(state)
        """Where the run takes in what happens, as its rows say."""
        self.commit_id = ""
        self._encoded = b""
        """The snapshot for the next commit, where it was encoded before."""
        self.trigger: TriggerRow | None = None
        """The row of the trigger that was written last, if this process wrote one."""
        state.closed_approvals.clear()  # what the journal holds has its rows
        self.parked = {
            letter_id(state, a): (dead_letter_row(state, a, "pending", 0.0), a.key)
            for a in state.activations.values()
            if is_parked(a)
        }
        self.letters = find_item_letters(state) if state.triggers else {}
        """The pending letters of items that could start no run."""
        self.over: dict[tuple[str, tuple[int, ...], int], list[Any]] = {}
        """Rendered `over` lists of maps under way, by node, scope and attempt."""
        self.counted = state.money
        """What the run had used when the ledger was written last."""
        self.pins = 0
        """How many tasks of this run are in the dispatcher; while there are any, the run may not leave memory."""
        self.awaits = False
        """Whether a message for this run waits for something that is being fetched, and is decided soon."""
        self.inherited = False
        """Whether another process had the run: its attempts may be with workers, and only the transport knows which."""

    @property
    def changed(self) -> bool:
        """Whether there is something to be written."""
        return bool(self.events or self.timers or self.notices_consumed)

    @property
    def busy(self) -> bool:
        tally = self.state.tally
        return bool(self.pins or tally.get(N.QUEUED) or tally.get(N.RUNNING) or self.events or self.effects)

    def adopt(self, ruling: c.Ruling) -> None:
        self.events.extend(ruling.events)
        for effect in ruling.effects:
            if type(effect) is fx.Dispatch:  # one decision may have thousands
                self.effects.append(effect)
            elif isinstance(effect, fx.SetTimer):
                self.timers[effect.timer] = effect.due_at
            elif isinstance(effect, fx.ClearTimer):
                self.timers[effect.timer] = None
            else:
                self.effects.append(effect)
                self._notice(effect)
        if self.state.children and any(type(event) in _ENDS for event in ruling.events):
            self._stop_children()

    def encode_in_steps(self) -> Iterator[None]:
        """Encode the snapshot that the next commit takes, if it takes one and the state is large."""
        if len(self.state.activations) <= snapshot.PIECE or not self._wants_snapshot():
            return
        with suppress(OverflowError):
            self._encoded = yield from snapshot.encoding(self.state)

    def commit(self, commit_id: str, incarnation: int | None) -> Commit:
        """The commit that writes the decisions taken since the last one."""
        state = self.state
        self.commit_id = commit_id
        taken = None
        if self._wants_snapshot():
            self.snapshot_seq = state.seq
            with suppress(OverflowError):  # a whole number beyond 64 bits: JSON holds it, a snapshot does not
                taken = Snapshot(state.seq, snapshot.SNAPSHOT_VERSION, self._encoded or snapshot.encode(state))
                self.grown = len(taken.body)
            self._encoded = b""
        bodies = [e.encode(event) for event in self.events]
        self.grown += self.room.write(bodies)
        events = tuple(
            [
                StoredEvent(event.seq, event.type, event.at, body)
                for event, body in zip(self.events, bodies, strict=True)
            ]
        )
        timers = self.timers.items()
        kinds = set(map(type, self.events))  # most commits touch none of what has rows of its own
        before = self.subscribed
        if before or state.triggers or e.NodeWaiting in kinds:
            self.subscribed = subscriptions_after(state, before, self.events)
        letters = self._dead_letters() if self.parked or e.NodeParked in kinds else []
        if state.triggers:
            letters += self._item_letters()
        return Commit(
            run_id=state.run_id,
            expected_seq=self.durable_seq,
            commit_id=commit_id,
            row=row_of(state, self.partition),
            events=events,
            timers_set=tuple([(name, due_at) for name, due_at in timers if due_at is not None]) if timers else (),
            timers_cleared=tuple([name for name, due_at in timers if due_at is None]) if timers else (),
            snapshot=taken,
            approvals=self._approvals() if state.approvals else (),
            dead_letters=tuple(letters),
            triggers=self._triggers() if state.triggers else (),
            subscriptions=tuple([one for place, one in self.subscribed.items() if before.get(place) != one])
            if self.subscribed
            else (),
            subscriptions_cleared=tuple(sorted(find_left(state, before, self.subscribed)))
            if before or state.triggers
            else (),
            occurrences=tuple(self.occurrences),
            ledger=list_used(state, self.counted, self.events[-1].at)
            if self.events and state.money is not self.counted
            else (),
            entries=list_left_behind(state, self.events) if e.NodeCompleted in kinds and state.ir.has_agents else (),
            notices=tuple(self.notices),
            notices_consumed=tuple(self.notices_consumed),
            incarnation=incarnation,
        )

    def _wants_snapshot(self) -> bool:
        """Whether this commit takes a snapshot. The cost of one grows with the state, so a large state takes fewer,
        which keeps the cost per event constant. A snapshot is read in one go, so an even larger state has none, and is
        loaded from its events."""
        if self.grown > LARGEST_SNAPSHOT:
            return False
        state = self.state
        parts = len(state.activations) + state.unconsumed_count + len(state.signals_seen)
        return state.seq - self.snapshot_seq >= max(SNAPSHOT_EVERY, parts)

    def committed(self) -> None:
        """Forget what the last commit wrote, now that it is durable."""
        state = self.state
        if worry := say_worry(state, self.durable_seq):
            logger.warning("run %s: %s", state.run_id, worry, extra={"run_id": state.run_id})
        self.durable_seq = state.seq
        self.counted = state.money
        for one in (self.events, self.effects, self.timers, self.notices, self.occurrences, self.notices_consumed):
            if one:
                one.clear()

    # -- projections ---------------------------------------------------------------------------------------------------

    def _approvals(self) -> tuple[ApprovalRow, ...]:
        """Rows of the approvals that events name, and of those that ended with the activation that asked for them."""
        state = self.state
        changed = {event.approval for event in self.events if event.type.startswith("approval.")}
        changed |= state.closed_approvals.keys()
        state.closed_approvals.clear()
        return tuple(approval_row(state, name) for name in sorted(changed))

    def _triggers(self) -> tuple[TriggerRow, ...]:
        row = trigger_row(self.state)
        if row is None or row == self.trigger:
            return ()
        self.trigger = row
        return (row,)

    def _dead_letters(self) -> list[DeadLetterRow]:
        state = self.state
        touched = {(event.node, event.scope, event.item) for event in self.events if isinstance(event, e.NodeParked)}
        rows, at = [], self.events[-1].at if self.events else 0.0
        for node, scope, item in sorted(touched, key=str):
            activation = state.find(node, scope, item)
            if activation is not None and is_parked(activation):
                row = dead_letter_row(state, activation, "pending", at)
                self.parked[row.dead_letter_id] = (row, activation.key)
                rows.append(row)
        if self.parked and any(not isinstance(event, e.NodeParked) for event in self.events):
            rows.extend(self._resolved_letters(at))
        return rows

    def _item_letters(self) -> list[DeadLetterRow]:
        state = self.state
        if not touches_letters(state, self.events):
            return []
        before, self.letters = self.letters, find_item_letters(state)
        rows = [row for name, row in self.letters.items() if name not in before]
        at = self.events[-1].at if self.events else 0.0
        gone = (row for name, row in before.items() if name not in self.letters)
        return [*rows, *(resolve_item_letter(row, state, at, self.events) for row in gone)]

    def _resolved_letters(self, at: float) -> list[DeadLetterRow]:
        found = {name: self.state.activations.get(key) for name, (_, key) in self.parked.items()}
        over = sorted(name for name, one in found.items() if one is None or not is_parked(one))
        asked = asked_for(self.state.run_id, self.events)
        return [resolve_letter(self.parked.pop(name)[0], found[name], at, asked.get(name, asked[""])) for name in over]

    def _notice(self, effect: fx.Effect) -> None:
        """Tell the end of a run to its parent, its trigger or its continuation, in the run's own terminal transaction
        (PROTOCOL 12); and the start of a run that a trigger decided on, in the transaction that records it.

        The notice is made as the end is decided: later in the same batch the run may be retried, and no longer be
        ended.
        """
        if isinstance(effect, fx.NotifyParent):
            self.notices.append((effect.parent[0], child_notice(self.state)))
        elif isinstance(effect, fx.TellTopic):
            self.occurrences.append(end_of_run(self.state, effect))
        elif isinstance(effect, fx.StartRun):
            self.notices.append((effect.run_id, start_notice(self.state, effect)))
        elif isinstance(effect, fx.NotifyTrigger):
            self.notices.append((effect.trigger.trigger, end_notice(self.state, effect)))
        elif isinstance(effect, fx.ContinueRun):
            self.notices.append((effect.run_id, continuation_notice(self.state, effect)))

    def _stop_children(self) -> None:
        """Stop the children that the run ends without. They are told so at once, too; but that is lost with this process, and of a run
        that has ended nothing is sent again."""
        state = self.state
        open_ones = {
            key: a for key in state.children.values() if (a := state.activations[key]).child_open or a.ask_children
        }
        for activation in open_ones.values():
            for child in open_children(activation):
                self.notices.append((child, stop_notice(state, child)))


async def load(journal: Journal, library: Library, record: RunRecord) -> State:
    """The state that a run's journal folds to, from its newest readable snapshot on."""
    return await load_from(journal, library.get, record, await find_kept(journal, record))


async def find_kept(journal: Journal, record: RunRecord) -> Snapshot | None:
    """The run's snapshot; None also where the database is damaged in its place, since the events decide. A short run has
    none, and is not asked for it."""
    if record.seq < SNAPSHOT_EVERY:
        return None
    try:
        return await journal.find_snapshot(record.run_id)
    except JournalCorrupt as error:
        logger.warning("run %s: its snapshot cannot be read: %s", record.run_id, error)
        return None


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
                state = await aside(record.row.tenant, snapshot.decode, kept.body, irs)
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
        try:
            stored = await journal.read_events(run_id, after, _READ)
        except JournalCorrupt as error:
            await journal.incarnation()  # raises where nothing can be read; otherwise the damage is this run's alone
            raise IntegrityError(f"run {run_id}: its events cannot be read: {error}") from error
        for one in stored:
            weight += cost(one.body)
            if weight > LARGE_BYTES:  # how many events are read at once says nothing of what each takes
                weight = 0
                await system.sleep(0)  # no time passes, but other tasks have their turn
            event = e.decode(one.body)
            if isinstance(event, e.RunCreated | e.RunPatched) and event.ir not in state.library:
                state.library[event.ir] = await get_ir(event.ir)
            evolve(state, event)
        if len(stored) < _READ:
            if state.seq < record.seq:
                raise IntegrityError(f"run {run_id}: the journal holds {state.seq} of {record.seq} events")
            return state
        after = stored[-1].seq
