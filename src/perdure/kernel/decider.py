"""One decision being made: the state it is made on, what is known, and what has been decided so far.

Events are applied to the state as they are emitted, so that every later step of the decision sees them. When a verdict
is missing, `Unknown` is raised and the state is rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel.causal_past import Evidence
from perdure.kernel.causal_past import evidence as gather
from perdure.kernel.child_runs import list_left, open_children
from perdure.kernel.evolve import apply
from perdure.kernel.lifecycle import N
from perdure.kernel.state import Activation, Key, State
from perdure.kernel.triggers.receivers import find_inner_polls
from perdure.kernel.values import Error
from perdure.model.ir import Condition, Node

Q = N.QUEUED
_complete = msgspec.structs.force_setattr
_FAILURES = (e.NodeFailed, e.NodeRetrying, e.NodeParked, e.ItemFailed)

MAX_DEPTH = 100
"""The most runs inside runs. Each level makes default outputs deeper, and deeper ones than this may not be storable."""

GRACE_SECONDS = 30.0
"""How long a run that ends waits for work that cannot be stopped at once."""


class Unknown(Exception):
    """The decision needs verdicts it does not have."""

    def __init__(self, questions: list[c.Question]) -> None:
        super().__init__()
        self.questions = questions


class Refusal(Exception):
    """The command is not possible now."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Decider:
    def __init__(self, state: State, command: c.Command, verdicts: Mapping[c.Need, c.Verdict]) -> None:
        self.state = state
        self.command = command
        self.at = command.at
        self.verdicts = verdicts
        self.events: list[Any] = []
        self.effects: list[fx.Effect] = []
        self.ended: list[Activation] = []
        """Activations inside loops that ended in this decision: they may let an iteration close."""
        self.raced: set[Key] = set()
        """Joins that fired in this decision and cancelled their losers (rule 11)."""
        self._named: Activation | None = None
        """The activation that the command names, once it was looked for."""
        self._cause = ""
        state.touched = []
        state.timer_changes = {}

    @property
    def cause(self) -> str:
        """What the next event comes from: the number of an event, or the id or name of a command. The first event of
        a decision comes from outside or, if it is the result of an attempt, from the event that sent that attempt;
        the others come from the first."""
        if self.events:
            if not self._cause:
                self._cause = str(self.events[0].seq)
            return self._cause
        command = self.command
        if command.id or not isinstance(command, c.NodeCommand):
            return command.id or type(command).__name__.lower()
        activation = self._find(command)
        known = activation is not None and activation.scheduled_seq and not command.address.undo
        return str(activation.scheduled_seq) if activation is not None and known else type(command).__name__.lower()

    def emit(self, kind: type[e.Event], /, **fields: Any) -> None:
        self._record(kind(seq=self.state.seq + 1, at=self.at, cause=self.cause, **fields))

    def _record(self, event: e.Event) -> None:
        state = self.state
        apply(state, event)
        _complete(event, "counter", state.tokens + state.open + state.undoing)  # `State.counter`
        self.events.append(event)

    def emit_for(
        self, kind: type[e.NodeEvent], activation: Activation, *, attempt: int | None = None, **fields: Any
    ) -> None:
        """Emit an event about one activation, of its current attempt unless it says which."""
        if type(self.command) is c.Fail and kind in _FAILURES and self.get(self.command) is activation:
            fields |= {"started_at": self.command.started_at, "worker": self.command.worker}
        state, scope = self.state, activation.scope
        self._record(
            kind(
                seq=state.seq + 1,
                at=self.at,
                cause=self.cause,
                node=state.name(activation.node),
                scope=scope,
                item=None if activation.item < 0 else activation.item,
                visit=activation.visit if activation.fired else self._visit(activation),
                attempt=activation.attempt if attempt is None else attempt,
                **fields,
            )
        )
        if scope:
            self.ended.append(activation)

    def effect(self, effect: fx.Effect) -> None:
        self.effects.append(effect)

    def place(self, activation: Activation, attempt: int | None = None) -> e.Place:
        return e.Place(
            self.state.name(activation.node),
            activation.scope,
            activation.item_index,
            self._visit(activation),
            activation.attempt if attempt is None else attempt,
        )

    def _visit(self, activation: Activation) -> int:
        if activation.fired or activation.item >= 0 or activation.visit:
            return activation.visit
        return self.state.visits.get(activation.node, 0) + 1 if activation.scope else 1

    def dispatch(self, activation: Activation, *, undo: bool = False) -> None:
        self.effect(fx.Dispatch(address=self.state.address(activation, undo=undo)))

    def stop(self, activation: Activation, *, undo: bool = False) -> None:
        self.effect(fx.Stop(address=self.state.address(activation, undo=undo)))

    def recall(self, activation: Activation, *, undo: bool = False) -> None:
        self.effect(fx.Recall(address=self.state.address(activation, undo=undo)))

    def node(self, activation: Activation) -> Node:
        """The node as the definition that governs routing has it now."""
        return self.state.governing(activation)

    def ask(self, need: c.Need, evidence: Callable[[], Evidence], condition: Condition | None = None) -> c.Verdict:
        """The verdict; `Unknown` if missing. The evidence is gathered now, while the state is the one in question."""
        verdict = self.verdicts.get(need)
        if verdict is None:
            raise Unknown([c.Question(need, evidence(), condition)])
        return verdict

    def condition_evidence(
        self, activation: Activation, condition: Condition, output: Any = None, output_ref: str | None = None
    ) -> Evidence:
        everything = condition.reads_everything
        references = condition.references
        return gather(self.state, activation, references, output=output, output_ref=output_ref, everything=everything)

    def get(self, command: c.NodeCommand) -> Activation:
        """The activation that a command names; a command that names none is refused."""
        activation = self._find(command)
        if activation is None:
            where = command.address.place
            raise Refusal("unknown_activation", f"run {self.state.run_id} has no activation of {where}")
        return activation

    def _find(self, command: c.NodeCommand) -> Activation | None:
        if command is not self.command:
            return self.state.locate(command.address)
        if self._named is None:
            self._named = self.state.locate(command.address)
        return self._named

    def fail_run(self, error: Error, activation: Activation | None = None) -> None:
        """Fail the run over a failure that no node handles: nothing is dispatched from here on (rule 25)."""
        node: str | None = None
        scope: tuple[int, ...] = ()
        if activation is not None:
            node, scope = self.state.name(activation.node), activation.scope
            error = msgspec.structs.replace(error, node=node, scope=scope, item=activation.item_index)
        polling = find_inner_polls(self.state)
        self.emit(e.RunFailing, error=error, node=node, scope=scope)
        for poll in polling:  # it may sleep for an hour, and a run that fails waits for no item
            self.stop(poll)
            self.emit_for(e.NodeHeld, poll, reason="failing")
        self.recall_queued()
        if self.stop_children():  # children end as those of a cancelled run do, and may not take longer (rule 29)
            self.emit(e.TimerSet, timer="grace", due_at=self.at + GRACE_SECONDS)

    def stop_children(self) -> bool:
        """Stop the children that run. True if one is waited for. A child the next generation wants again is retried
        (rule 35)."""
        states = (N.WAITING, N.PARKED)
        found = sorted_by_schedule(self.state, *states) if self.state.children else []
        waited_for = False
        for activation in found:
            for child in open_children(activation):
                self.effect(fx.StopChild(child=child))
                waited_for = waited_for or activation.state is N.WAITING
        return waited_for

    def leave_children(self, activation: Activation) -> None:
        """Stop the children of an activation that has ended, if they are not what ended it."""
        for child in list_left(self.state, activation):
            self.effect(fx.StopChild(child=child))

    def recall_queued(self) -> None:
        state = self.state
        if state.tally.get(Q, 0):
            for activation in sorted_by_schedule(state, Q):
                self.recall(activation)


def sorted_by_schedule(state: State, *states: str) -> list[Activation]:
    return sorted((a for a in state.activations.values() if a.state in states), key=in_schedule)


def in_schedule(activation: Activation) -> tuple[int, int, tuple[int, ...], int]:
    """A sort key that does not depend on how the state came to be."""
    return (activation.scheduled_seq, activation.node, activation.scope, activation.item)
