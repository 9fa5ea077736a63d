"""Compensation: undo what was done, in reverse order of completion, one after the other (rule 34); and the end of runs."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel.child_runs import next_undone
from perdure.kernel.decider import Decider
from perdure.kernel.lifecycle import IntegrityError, N, R
from perdure.kernel.state import Activation, State
from perdure.kernel.triggers.receivers import starts_runs
from perdure.kernel.values import Error


def begin(d: Decider, ends: Literal["failed", "cancelled", "rolled_back"], generation: int | None = None) -> bool:
    """Plan the compensation. False when there is nothing to compensate and the run may end at once."""
    state = d.state
    plan = plan_of(state)
    if not plan and ends != "rolled_back":
        return False
    places = tuple(d.place(activation) for activation in plan)
    d.emit(e.RunCompensating, ends=ends, plan=places, generation=generation or state.generation, by=d.command.by)
    return True


def plan_of(state: State) -> list[Activation]:
    """What a compensation that begins now would undo, in that order."""
    done = (state.activations[key] for key in reversed(state.undoable))
    return [activation for activation in done if activation.state is N.COMPLETED or next_undone(activation)]


def go_on(d: Decider) -> None:
    """Compensate the next activation of the plan, unless one is under way or waits for a person."""
    state = d.state
    while state.plan:
        activation = state.activations[state.plan[-1]]
        if activation.undo is not None and activation.undo.state == "planned":
            attempt(d, activation)
        if state.plan and state.plan[-1] == activation.key:
            return
    close(d)


def attempt(d: Decider, activation: Activation) -> None:
    undo = activation.undo
    if undo is None:
        raise IntegrityError(f"run {d.state.run_id}: no compensation of {d.state.name(activation.node)} is planned")
    if not _is_left_to_undo(d.state, activation):  # only children of its asks were to be undone
        complete(d, activation, None)
        return
    d.emit_for(e.NodeCompensating, activation, attempt=undo.attempt + 1)
    child = child_to_undo(d.state, activation)
    if child:
        d.effect(fx.StopChild(child=child, rollback=True))
    else:
        d.dispatch(activation, undo=True)


def child_to_undo(state: State, activation: Activation) -> str:
    """The child whose rollback compensates the activation next; empty where its compensator does. Children of its asks
    come before it, the last that completed first (rule 80)."""
    child = next_undone(activation)
    if child or state.pinned(activation).compensator is not None:
        return child
    return activation.child


def _is_left_to_undo(state: State, activation: Activation) -> bool:
    if next_undone(activation):
        return True
    own = state.pinned(activation).compensator is not None or bool(activation.child)
    return own and activation.state is N.COMPLETED


def child_undone(d: Decider, activation: Activation, output: object) -> None:
    """Go on after the rollback of a child: it was the compensation, or one of the asks' children was undone first."""
    if not activation.ask_children:
        complete(d, activation, output)
    else:
        attempt(d, activation)


def is_current(state: State, activation: Activation, command: c.NodeCommand) -> bool:
    """Whether this attempt may still speak for the compensation; a run ended by force accepts no result (J4)."""
    undo = activation.undo
    if state.state is not R.COMPENSATING or undo is None or undo.state not in ("queued", "running"):
        return False
    if next_undone(activation):
        return False  # a child of its asks is being undone, and no worker was sent for that
    return command.address.generation == state.generation and command.address.attempt == undo.attempt


def complete(d: Decider, activation: Activation, output: object) -> None:
    undo = activation.undo
    d.emit_for(e.NodeCompensated, activation, output=output, attempt=undo.attempt if undo is not None else 0)


def fail(d: Decider, activation: Activation, error: Error, *, retryable: bool, retry_after: float | None) -> None:
    """Try the compensator again; when nothing is left to try, wait for a person. Order is kept: nothing overtakes."""
    undo, compensator = activation.undo, d.state.pinned(activation).compensator
    if undo is None:
        return
    tried = undo.failures + 1
    error = msgspec.structs.replace(error, attempts=tried)
    retry = compensator.retry if compensator is not None else None
    if retry is None or not retryable or tried >= retry.max_attempts:
        d.emit_for(e.NodeParked, activation, error=error, undo=True, attempt=undo.attempt)
        return
    delay = retry_after
    if delay is None:
        delay = min(retry.backoff_ms * retry.multiplier**undo.failures, retry.max_backoff_ms) / 1000
        delay *= 0.5 + d.command.entropy / 2 if retry.jitter else 1.0
    d.emit_for(e.NodeCompensating, activation, error=error, retry_at=d.at + delay, attempt=undo.attempt)


def close(d: Decider) -> None:
    """End the run with its terminal event, and notify its parent."""
    state = d.state
    if state.ending == "failed":
        d.emit(e.RunFailed, error=state.error or Error("unknown", "the run failed"))
    elif state.ending == "rolled_back":
        d.emit(e.RunRolledBack)
    else:
        d.emit(e.RunCancelled, by=state.by)
    notify(d)


def give_up(d: Decider) -> None:
    """End a compensation by force: each activation that was not compensated becomes a dead letter (rule 29)."""
    left = tuple(d.place(d.state.activations[key]) for key in reversed(d.state.plan))
    d.emit(e.RunCancelled, by=d.command.by, forced=True, not_compensated=left)
    notify(d)


def notify(d: Decider) -> None:
    """Tell those that wait for the end of this run: its parent, the trigger that started it (rule 49), and the triggers that listen to its
    workflow (rule 53)."""
    state = d.state
    ended: Any = state.state.value
    if state.streaming:
        d.effect(fx.DropStreams())
    if state.parent is not None:
        d.effect(fx.NotifyParent(parent=state.parent))
    elif not starts_runs(state):
        d.effect(fx.TellTopic(state=ended))
    if state.trigger is not None and state.trigger.report:
        d.effect(fx.NotifyTrigger(trigger=state.trigger, state=ended))
