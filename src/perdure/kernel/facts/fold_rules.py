"""What all folding of events shares: the table of rules, and how activations begin and cease to wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.kernel import events as e
from perdure.kernel.child_runs import next_undone
from perdure.kernel.edges import ask_timer, clear_timer, ensure, set_state, timer_name
from perdure.kernel.lifecycle import OPEN, RUN_TRANSITIONS, IntegrityError, N, RunState
from perdure.kernel.signal_lines import leave
from perdure.kernel.state import Activation, Approval, State
from perdure.kernel.values import Asked, Undo

HANDLERS: dict[type[e.Event], Callable[[State, Any], None]] = {}


def folds(kind: type[e.Event]) -> Callable[[Callable[[State, Any], None]], Callable[[State, Any], None]]:
    """Register the one function that says what events of this kind do."""

    def register(handler: Callable[[State, Any], None]) -> Callable[[State, Any], None]:
        if kind in HANDLERS:
            raise NotImplementedError(f"two rules for {kind.__name__}")
        HANDLERS[kind] = handler
        return handler

    return register


def set_run_state(state: State, new: RunState) -> None:
    if new not in RUN_TRANSITIONS[state.state]:
        raise IntegrityError(f"run {state.run_id} cannot go from {state.state} to {new}")
    state.state = new


def get(state: State, event: e.NodeEvent | e.Place) -> Activation:
    """The activation an event is about, created if this is the first event about it."""
    activation = state.find(event.node, event.scope, event.item)
    if activation is None:
        activation = ensure(state, state.index(event.node), event.scope, -1 if event.item is None else event.item)
    state.edit(activation)
    return activation


def began(state: State, activation: Activation, at: float | None) -> None:
    """Record when an attempt began; None when its worker did not say."""
    if at is not None:
        activation.started_at = at
        state.started_at = at if state.started_at is None else min(at, state.started_at)


def finish(state: State, activation: Activation, seq: int, at: float) -> None:
    """End an activation: its timers and waits are cleared."""
    stop_waiting(state, activation)
    if state.timers:
        for kind in ("retry", "queue", "total"):
            clear_timer(state, timer_name(state, kind, activation))
    activation.retry_at = None
    activation.ended_at, activation.ended_seq = at, seq


def stop_waiting(state: State, activation: Activation) -> None:
    wait = activation.wait
    if wait is None:
        return
    activation.wait = None
    if wait.kind in ("timer", "delay"):
        clear_timer(state, timer_name(state, wait.kind if wait.kind == "delay" else "wait", activation))
    elif wait.kind in ("signal", "event"):
        if wait.kind == "signal":
            leave(state, wait.name)
        clear_timer(state, timer_name(state, "wait", activation))
    elif wait.kind == "approval":
        clear_timer(state, timer_name(state, "approval", activation))
        approval = state.approvals.get(wait.name)
        if approval is not None and approval.state == "pending":
            _close_approval(state, wait.name, approval)
    elif wait.kind == "asks":
        for ask in activation.asks.values():
            if ask.open:
                close_ask(state, activation, ask)


def _close_approval(state: State, name: str, approval: Approval) -> None:
    state.edit(approval)
    approval.state = "decided"
    state.put(state.closed_approvals, name, None)


def close_ask(state: State, activation: Activation, ask: Asked) -> None:
    """Let an ask wait no longer: it has its answer, or its activation has ended."""
    state.edit(ask)
    ask.open = False
    state.patching -= ask.kind == "patch"
    clear_timer(state, ask_timer(state, "ask", activation, ask.name))
    if ask.signal:
        leave(state, ask.signal)
    approval = state.approvals.get(ask.approval)
    if approval is not None and approval.state == "pending":
        clear_timer(state, ask_timer(state, "approval", activation, ask.name))
        _close_approval(state, ask.approval, approval)


def undo_of(state: State, activation: Activation) -> Undo:
    if activation.undo is None:
        raise IntegrityError(f"run {state.run_id}: {state.name(activation.node)} is not being compensated")
    undo: Undo = state.edit(activation.undo)
    return undo


def close_open(state: State) -> None:
    if not state.open:
        return
    for activation in state.activations.values():
        if activation.state in OPEN:
            state.edit(activation)
            activation.resume = activation.state
            stop_waiting(state, activation)
            set_state(state, activation, N.CANCELLED)


def count_item(state: State, item: Activation, *, failed: bool) -> None:
    owner = state.edit(ensure(state, item.node, item.scope))
    owner.items_failed += failed
    owner.items_completed += not failed


def _has_undone_asks(activation: Activation) -> bool:
    return bool(activation.ask_children) and bool(next_undone(activation))


def succeed(state: State, activation: Activation, event: e.NodeCompleted | e.ItemCompleted) -> None:
    activation.output, activation.output_ref, activation.size = event.output, event.output_ref, event.size
    activation.error, activation.reason = None, ""
    if isinstance(event, e.NodeCompleted) and event.adopted:
        activation.started_at = event.started_at  # it began in another run
    else:
        began(state, activation, event.started_at)
    if event.worker:
        activation.worker = event.worker
    state.bytes += event.size
    finish(state, activation, event.seq, event.at)
    set_state(state, activation, N.COMPLETED)
    if state.pinned(activation).compensator is not None or activation.child or _has_undone_asks(activation):
        if activation.key in state.undoable:  # done again; it is compensated once
            state.undoable = [key for key in state.undoable if key != activation.key]
        state.push(state.undoable, activation.key)


def planned_done(state: State, activation: Activation) -> None:
    clear_timer(state, timer_name(state, "undo", activation))
    if not state.plan or state.plan[-1] != activation.key:
        raise IntegrityError(f"run {state.run_id}: compensation out of order (rule 34)")
    state.pull(state.plan)
    if state.undoable and state.undoable[-1] == activation.key:
        state.pull(state.undoable)
    else:
        state.undoable = [key for key in state.undoable if key != activation.key]
    state.undoing -= 1
