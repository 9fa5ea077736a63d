"""Compensation: what was done is undone in turn: R3, V1, V3, V4 and V8 of compensators, rule 80."""

from __future__ import annotations

from perdure.invariants import attempts
from perdure.invariants.model import Act, Model
from perdure.kernel import events as e


def compensating(model: Model, event: e.NodeCompensating) -> None:
    act = attempts.get(model, event)
    if model.state != "compensating" or not model.plan or model.plan[-1] != act.key:
        model.blame("R3", f"{act.place} is compensated out of turn")
    name = model.timer("undo", act)
    if event.retry_at is not None:
        if event.attempt != act.undo_attempt:
            model.blame("V4", f"attempt {event.attempt} of the compensation of {act.place} fails out of turn")
        act.undo_retry_at = model.timers[name] = event.retry_at
        return
    if event.attempt <= act.undo_attempt:
        model.blame("V1", f"attempt {event.attempt} of the compensation of {act.place} comes after {act.undo_attempt}")
    if act.undo_retry_at is not None and event.at < act.undo_retry_at:
        model.blame("V8", f"the compensation of {act.place} is tried again before its backoff is over")
    act.undo_attempt, act.undo_retry_at, act.undo_parked = event.attempt, None, False
    model.timers.pop(name, None)


def compensated(model: Model, event: e.NodeCompensated) -> None:
    act = attempts.get(model, event)
    if event.attempt != act.undo_attempt:
        model.blame("V3", f"{act.place} is compensated by attempt {event.attempt}; current is {act.undo_attempt}")
    if any(child.done for child in act.brood.values()):
        model.blame("rule 80", f"{act.place} is compensated before the children of its asks")
    if act.state == "completed" or not act.brood:
        attempts.move(model, act, "compensated")
        model.set_state(act, "compensated")
    act.undone += 1
    act.accepted, act.steps = False, frozenset()
    _end(model, act)


def discarded(model: Model, event: e.NodeDiscarded) -> None:
    """A person gives up a compensation that is parked, or else a node."""
    if event.undo:
        _end(model, attempts.get(model, event))
    else:
        attempts.discarded(model, event)


def _end(model: Model, act: Act) -> None:
    if not model.plan or model.plan[-1] != act.key:
        model.blame("R3", f"the compensation of {act.place} ends out of turn")
        return
    model.plan.pop()
    model.undoing -= 1
    model.clear(act, "undo")
