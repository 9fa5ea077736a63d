"""The effects a state implies: what a coordinator sends again after a crash or a loss (T1).

Queued or running in the journal *is* the outbox; nothing else remembers what was to be sent.
"""

from __future__ import annotations

from typing import Any

from perdure.kernel import commands as c
from perdure.kernel.decider import in_schedule, sorted_by_schedule
from perdure.kernel.hand_out import find_stops
from perdure.kernel.state import Activation, NodeState, RunState, State
from perdure.kernel.waits import has_more_items

N, R = NodeState, RunState


def outstanding(state: State) -> list[c.Effect]:
    if state.terminal or state.imported:
        return []
    effects: list[c.Effect] = []
    for activation in sorted_by_schedule(state, N.QUEUED):
        kind: Any = c.Dispatch if state.state is R.RUNNING else c.Recall
        effects.append(kind(address=state.address(activation)))
    if state.state is R.CANCELLING:
        effects.extend(c.Stop(address=state.address(a)) for a in sorted_by_schedule(state, N.RUNNING))
    waiting = sorted_by_schedule(state, N.WAITING)
    effects.extend(_child(state, a) for a in waiting if a.wait is not None and a.wait.kind == "child")
    left = [
        state.activations[key] for key in state.children.values()
    ]  # what ended them may have been lost with the stop
    left = sorted((a for a in left if state.is_left(a)), key=in_schedule)
    effects.extend(c.StopChild(child=activation.child) for activation in left)
    effects.extend(c.StartMore(address=state.address(a)) for a in waiting if has_more_items(state, a))
    for box in state.triggers.values():
        effects.extend(find_stops(box))
    if state.plan:
        activation = state.activations[state.plan[-1]]
        undo = activation.undo
        if undo is not None and undo.state == "queued":
            if state.pinned(activation).compensator is None:
                effects.append(c.StopChild(child=activation.child, rollback=True))
            else:
                effects.append(c.Dispatch(address=state.address(activation, undo=True)))
    return effects


def _child(state: State, activation: Activation) -> c.Effect:
    if state.state in (R.FAILING, R.CANCELLING):
        return c.StopChild(child=activation.child)
    return c.StartChild(
        child=activation.child,
        address=state.address(activation),
        workflow=activation.child_workflow,
        inputs=activation.child_inputs,
        generation=activation.wait.generation if activation.wait is not None else 1,
    )
