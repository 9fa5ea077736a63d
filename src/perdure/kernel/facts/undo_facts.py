"""What compensation does to the state."""

from __future__ import annotations

from perdure.kernel import events as e
from perdure.kernel.edges import clear_timer, set_state, set_timer, timer_name
from perdure.kernel.facts.fold_rules import folds, get, planned_done, undo_of
from perdure.kernel.lifecycle import N
from perdure.kernel.state import State, Timer


@folds(e.NodeCompensating)
def _node_compensating(state: State, event: e.NodeCompensating) -> None:
    activation = get(state, event)
    undo = undo_of(state, activation)
    name = timer_name(state, "undo", activation)
    if event.retry_at is not None:
        undo.state, undo.failures = "retrying", undo.failures + 1
        set_timer(state, name, Timer(event.retry_at, "undo", activation.key, event.attempt))
        return
    clear_timer(state, name)
    undo.state, undo.attempt = "queued", event.attempt


@folds(e.NodeCompensated)
def _node_compensated(state: State, event: e.NodeCompensated) -> None:
    activation = get(state, event)
    undo_of(state, activation).state = "done"
    activation.undone += 1
    if activation.state is N.COMPLETED:  # otherwise only the children of its asks were undone (rule 80)
        set_state(state, activation, N.COMPENSATED)
    planned_done(state, activation)
