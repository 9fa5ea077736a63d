"""Bugs in the rules about runs and waits: ends, generations, pause, compensation, approvals, signals, children."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from perdure.kernel import commands as c
from perdure.kernel import (
    compensation,
    dispatches,
    edges,
    outcomes,
    runs,
    settle,
    snapshot,
    waits,
)
from perdure.kernel import events as e
from perdure.kernel.decider import Decider
from perdure.kernel.facts import fold_rules as facts
from perdure.kernel.facts import node_facts, run_facts, wait_facts
from perdure.kernel.lifecycle import NodeState, RunState
from tests.sim.planting import bug, focused, method, swapped

N, R = NodeState, RunState

# -- runs --------------------------------------------------------------------------------------------------------------


@bug("a run completes when nothing is queued or running, whatever else is open", "R1 R2")
def _() -> Iterator[None]:
    real = settle.end_if_over

    def end_if_over(d: Decider) -> None:
        run = d.state
        if run.state in (R.RUNNING, R.PAUSED) and run.seq > 1:
            if not run.tally.get(N.QUEUED) and not run.tally.get(N.RUNNING) and not run.touched:
                settle._complete(d)
                return
        real(d)

    def completed(run: Any, event: e.RunCompleted) -> None:
        run_facts._end(run, event, R.COMPLETED)

    with swapped(real, end_if_over), swapped(run_facts._run_completed, completed):
        yield


@bug("completion is decided after the append that emptied the run", "R1")
def _() -> Iterator[None]:
    real = settle.end_if_over

    def end_if_over(d: Decider) -> None:
        if isinstance(d.command, c.Complete) and d.state.state is R.RUNNING and d.state.counter == 0:
            return
        real(d)

    with swapped(real, end_if_over):
        yield


@bug("a retried run stays in its generation", "R4")
def _() -> Iterator[None]:
    real = runs.retry

    def retry(d: Decider, command: c.Retry) -> None:
        emit = d.emit

        def same(kind: Any, **fields: Any) -> None:
            if kind is e.RunRetried:
                fields["generation"] -= 1
            emit(kind, **fields)

        with patch.object(d, "emit", same):
            real(d, command)

    with swapped(real, retry):
        yield


@bug("what was held is never released", "R2")
def _() -> Iterator[None]:
    def resume(d: Decider, command: c.Resume) -> None:
        if d.state.state is R.PAUSED:
            d.emit(e.RunResumed, by=command.by)

    with swapped(runs.resume, resume):
        yield


@bug("a paused run dispatches", "R3")
def _() -> Iterator[None]:
    def hold_back(d: Decider, held: list[Any], reason: str) -> None:
        (dispatches.send if reason == "paused" else real)(d, held, *(() if reason == "paused" else (reason,)))

    real = dispatches.hold_back
    with swapped(real, hold_back):
        yield


@bug("work goes on while the run is failing", "R3")
def _() -> Iterator[None]:
    with swapped(outcomes._kept, lambda d, activation: False):
        yield


@bug("the deadline passes and nothing happens", "rule-31")
def _() -> Iterator[None]:
    with swapped(waits._deadline, lambda d: None):
        yield


@bug("compensation begins with what was done first", "V5")
def _() -> Iterator[None]:
    real = compensation.begin

    def begin(d: Decider, ends: Any, generation: int | None = None) -> bool:
        order = d.state.undoable
        d.state.undoable = list(reversed(order))
        try:
            return real(d, ends, generation)
        finally:
            d.state.undoable = order

    with swapped(real, begin):
        yield


# -- waits -------------------------------------------------------------------------------------------------------------


@bug("an approval is decided twice", "W2")
def _() -> Iterator[None]:
    real = waits.vote

    def vote(d: Decider, command: c.Vote) -> None:
        approval = d.state.approvals.get(command.approval)
        if approval is not None and approval.state != "pending" and not d.state.terminal:
            activation = d.state.activations[approval.key]
            decision = command.decision
            d.emit_for(e.ApprovalDecided, activation, approval=command.approval, decision=decision, by=command.by)
            return
        real(d, command)

    def decided(run: Any, event: e.ApprovalDecided) -> None:
        run.edit(run.approvals[event.approval]).state = "decided"
        edges.clear_timer(run, edges.timer_name(run, "approval", facts.get(run, event)))

    with swapped(real, vote), swapped(wait_facts._approval_decided, decided):
        yield


@bug("anybody may approve", "W2")
def _() -> Iterator[None]:
    real = waits.vote

    def vote(d: Decider, command: c.Vote) -> None:
        approval = d.state.approvals.get(command.approval)
        if approval is None:
            return real(d, command)
        people = approval.approvers
        approval.approvers = ()
        try:
            return real(d, command)
        finally:
            approval.approvers = people

    with swapped(real, vote):
        yield


@bug("a signal is taken by two waits", "rule-37")
def _() -> Iterator[None]:
    with swapped(node_facts._node_resumed, lambda run, event: facts.get(run, event)):
        yield


@bug("a snapshot leaves out the timers", "R2 J5")
def _() -> Iterator[None]:
    real = snapshot.encode

    def encode(run: Any) -> bytes:
        timers = run.timers
        run.timers = {}
        try:
            return real(run)
        finally:
            run.timers = timers

    with patch.object(snapshot, "encode", encode):
        yield


_WITH_CHILD = focused(
    {"id": "w", "type": "workflow", "config": {"workflow": "child"}},
    {"id": "a", "retry": {"max_attempts": 1}},
    {"id": "b", "dependencies": ["a"], "retry": {"max_attempts": 1}},
    rates={"raise": 0.6},
    handler_seconds=5.0,
)


@bug("a run fails and leaves its children behind", "rule-25", _WITH_CHILD)
def _() -> Iterator[None]:
    real = settle._has_children
    with method(Decider, "stop_children", lambda d: False), swapped(real, lambda run: False):
        yield
