"""What must hold in a simulated history.

Invariants after every append, promises at every publish and execution, and the state of everything at the end. Knows
the kernel only to fold journals; the rules come from `perdure.invariants`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from perdure.invariants import Checker
from perdure.invariants.model import Model
from perdure.journal import Commit
from perdure.kernel import events as e
from perdure.kernel import snapshot
from perdure.kernel.evolve import evolve
from perdure.kernel.state import State
from perdure.runtime.coordinator.projections import is_parked, letter_id, row_of
from perdure.runtime.coordinator.triggers.item_letters import find_item_letters
from perdure.runtime.coordinator.triggers.trigger_rows import trigger_row
from perdure.simulation.promises import Promises
from perdure.simulation.rules import Rules
from perdure.transport import Task

if TYPE_CHECKING:
    from perdure.simulation.world import World


class Failed(Exception):
    """A promise was broken. `rule` says which."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(f"{rule}: {message}")
        self.rule = rule


class Checks:
    def __init__(self, world: World) -> None:
        self._world = world
        self.checkers: dict[str, Checker] = {}
        self.event_types: Counter[str] = Counter()
        self.transitions: Counter[tuple[str, str]] = Counter()
        self.executions: Counter[str] = Counter()
        """How often each task was executed, by task id."""
        self.answers = 0
        """How many answers to asks handlers were given."""
        self.rules = Rules()
        self.promises = Promises(world)
        self._keys: dict[tuple[Any, ...], str] = {}
        self._owners: dict[str, tuple[Any, ...]] = {}
        self._undone: dict[str, int] = {}
        """How often the activation of a task had been undone when the task was first published. A copy of the task may be
        executed after its activation was undone once more."""

    def fail(self, rule: str, message: str) -> None:
        self._world.fail(Failed(rule, message))

    # -- as it happens -------------------------------------------------------------------------------------------------

    def appended(self, commit: Commit, by: str, now: float) -> None:
        checker = self.checkers.get(commit.run_id)
        if checker is None:
            checker = self.checkers[commit.run_id] = Checker(self._world.library)
        model = checker.model
        for stored in commit.events:
            event = e.decode(stored.body)
            before = model.state
            if isinstance(event, e.RunPatched):
                self._world.learn(event.ir)
            found = checker.feed(event)
            self.event_types[event.type] += 1
            self.rules.observe(event, model)
            if before != model.state:
                self.transitions[before, model.state] += 1
            self._world.trace("event", f"{commit.run_id} {_show(event)}", stored.body)
            error = getattr(event, "error", None)
            stopped = before in ("running", "paused") and error is not None and error.code == "cancelled"
            if stopped and not _was_discarded(model, event):
                self.fail("T1", f"run {commit.run_id} at {event.seq}: {event.type} because of a stop nobody asked for")
            for violation in found:
                self.fail(violation.id, f"run {commit.run_id} at {violation.seq}: {violation.message} (by {by})")
            self.promises.appended(commit.run_id, event, model, now)
            if isinstance(event, e.RunCreated):
                self._world.note_created(commit.run_id, event)
        for violation in checker.settle():
            self.fail(violation.id, f"run {commit.run_id} at {violation.seq}: {violation.message} (by {by})")

    def published(self, task: Task, by: str) -> None:
        """T3: the journal has the task. R7: its outcome is not known yet."""
        world = self._world
        world.trace("publish", f"{task.task_id} by {by}")
        if task.incarnation != world.store.incarnation:
            return
        checker = self.checkers.get(task.run_id)
        act = None if checker is None else checker.model.acts.get((task.node, task.scope, task.item))
        if checker is None or act is None:
            self.fail("T3", f"{by} publishes {task.task_id}, of which the journal knows nothing")
            return
        self._undone.setdefault(task.task_id, act.undone)
        if task.undo:
            if act.undo_attempt < task.attempt:
                self.fail("T3", f"{by} publishes {task.task_id}; the journal is at attempt {act.undo_attempt}")
        elif act.attempt < task.attempt or checker.model.generation < task.generation:
            self.fail("T3", f"{by} publishes {task.task_id}; the journal is at attempt {act.attempt}")
        elif act.accepted and act.attempt >= task.attempt and not act.redo:
            self.fail("R7", f"{by} publishes {task.task_id}, whose outcome is durable")

    def granted(self, task_id: str) -> None:
        self._world.trace("grant", task_id)

    def executed(self, ctx: Any) -> None:
        world, task = self._world, ctx._task
        self.executions[task.task_id] += 1
        world.trace("execute", task.task_id)
        checker = self.checkers.get(task.run_id)
        act = None if checker is None else checker.model.acts.get((task.node, task.scope, task.item))
        if world.rolled_back:
            return
        if checker is None or act is None:
            self.fail("T3", f"{task.task_id} is executed, and the journal knows nothing of it")
            return
        self.promises.executed(task, checker.model)
        if task.effect == "at_most_once":
            if self.executions[task.task_id] > 1:
                self.fail("V6", f"{task.task_id} may start once and is started again")
            if act.claimed < task.attempt:
                self.fail("V6", f"{task.task_id} starts before its start is durable")
        undone = self._undone.get(task.task_id, act.undone)
        place = (task.run_id, task.node, task.scope, task.item, task.undo, undone)
        if task.generation == checker.model.generation and not world.rolled_back:
            if place in self._keys and task.attempt > 1:
                self.rules.note(3)
            key = self._keys.setdefault(place, task.idempotency_key)
            if key != task.idempotency_key:
                self.fail("rule 3", f"{task.task_id} has key {task.idempotency_key}; it was {key}")
            owner = self._owners.setdefault(task.idempotency_key, place)
            if owner[:5] != place[:5]:
                self.fail("rule 3", f"key {task.idempotency_key} belongs to two activations")

    # -- at the end ----------------------------------------------------------------------------------------------------

    def fold(self, run_id: str) -> State:
        state = State(run_id=run_id)
        for stored in self._world.store.events[run_id]:
            event = e.decode(stored.body)
            if isinstance(event, e.RunCreated | e.RunPatched):
                state.library[event.ir] = self._world.library[event.ir]
            evolve(state, event)
        return state

    def projections(self) -> None:
        """J5: rows, timers, approvals and dead letters are what the journal folds to."""
        store = self._world.store
        for run_id, record in store.runs.items():
            if record.quarantined is not None:
                self.fail("quarantine", f"run {run_id} is quarantined: {record.quarantined}")
                continue
            state = self.fold(run_id)
            if state.seq != record.seq:
                self.fail("J5", f"run {run_id} is at {record.seq}, its events at {state.seq}")
            row = row_of(state, record.row.partition)
            if row != record.row:
                self.fail("J5", f"run {run_id} folds to {row}, its row is {record.row}")
            timers = {name: due_at for (owner, name), due_at in store.timers.items() if owner == run_id}
            if timers != {name: timer.due_at for name, timer in state.timers.items()}:
                self.fail("J5", f"run {run_id} folds to timers {dict(state.timers)}, stored are {timers}")
            pending = {
                row.approval_id for row in store.approvals.values() if row.run_id == run_id and row.state == "pending"
            }
            if pending != {name for name, approval in state.approvals.items() if approval.state == "pending"}:
                self.fail("J5", f"run {run_id}: stored as pending are approvals {sorted(pending)}")
            letters = {
                row.dead_letter_id
                for row in store.dead_letters.values()
                if row.run_id == run_id and row.state == "pending"
            }
            parked = {letter_id(state, a) for a in state.activations.values() if is_parked(a)}
            if letters != parked | find_item_letters(state).keys():
                self.fail("J5", f"run {run_id}: stored as pending are dead letters {sorted(letters)}")
            trigger = trigger_row(state)
            if trigger is not None and store.triggers.get((trigger.tenant, trigger.name)) != trigger:
                stored = store.triggers.get((trigger.tenant, trigger.name))
                self.fail("TG11", f"run {run_id} folds to {trigger}, its row is {stored}")

    def live(self) -> None:
        """The states in a coordinator's memory are what their journals fold to. A state of a run it no longer decides
        may be out of date, is used for nothing, and is forgotten after the current batch."""
        for process in self._world.engines:
            engine = process.engine
            if process.down or engine is None or engine.coordinator is None:
                continue
            coordinator = engine.coordinator
            for run_id, loaded in coordinator.memory.runs.items():
                if not coordinator.share.holds(run_id):
                    if not coordinator._releases:
                        self.fail("J5", f"{process.name} remembers run {run_id}, for which it no longer decides")
                elif run_id not in self._world.store.runs:
                    if not loaded.durable_seq:  # it is on its way to the journal
                        continue
                    self.fail("J5", f"{process.name} has run {run_id} in memory, the journal does not")
                elif not loaded.events and snapshot.encode(loaded.state) != snapshot.encode(self.fold(run_id)):
                    self.fail("J5", f"{process.name} has run {run_id} in memory otherwise than its journal")


def _show(event: e.AnyEvent) -> str:
    place = ""
    if isinstance(event, e.NodeEvent):
        place = (
            f" {event.node}{list(event.scope) if event.scope else ''}{'' if event.item is None else f'#{event.item}'}"
        )
        place += f" attempt {event.attempt}" if event.attempt else ""
    return f"{event.seq} {event.type}{place}"


def _was_discarded(model: Model, event: Any) -> bool:
    """Whether an activation, cut off by an end of the run that is over and parked, was then discarded by a person."""
    place = (getattr(event, "node", None) or "", getattr(event, "scope", ()), getattr(event, "item", None))
    act = model.acts.get(place)
    return act is not None and act.discarded
