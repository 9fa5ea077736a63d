"""The effects a state implies: what a coordinator sends again after a crash or a loss (T1).

Queued or running in the journal *is* the outbox; nothing else remembers what was to be sent.
"""

from __future__ import annotations

from typing import Any

from perdure.kernel import effects as fx
from perdure.kernel.child_runs import list_left
from perdure.kernel.compensation import child_to_undo
from perdure.kernel.decider import in_schedule, sorted_by_schedule
from perdure.kernel.lifecycle import N, R
from perdure.kernel.state import Activation, State
from perdure.kernel.streams.flows import closings
from perdure.kernel.triggers.hand_out import find_stops
from perdure.kernel.triggers.poll_stops import find_left
from perdure.kernel.waits import has_more_items
from perdure.model.money import Budget


def outstanding(state: State) -> list[fx.Effect]:
    if state.terminal or state.imported:
        return []
    effects: list[fx.Effect] = []
    for activation in sorted_by_schedule(state, N.QUEUED):
        kind: Any = fx.Dispatch if state.state is R.RUNNING else fx.Recall
        effects.append(kind(address=state.address(activation)))
    if state.state is R.CANCELLING:
        effects.extend(fx.Stop(address=state.address(a)) for a in sorted_by_schedule(state, N.RUNNING))
    waiting = sorted_by_schedule(state, N.WAITING)
    effects.extend(_child(state, a) for a in waiting if a.wait is not None and a.wait.kind == "child")
    effects.extend(effect for a in waiting if a.ask_children for effect in _ask_children(state, a))
    if state.patching and state.state in (R.RUNNING, R.PAUSED):
        patches = ((a, ask) for a in waiting for ask in a.asks.values() if ask.kind == "patch" and ask.open)
        effects.extend(fx.ApplyPatch(address=state.address(a), ask=ask.name) for a, ask in patches)
    # What ended them may have been lost with the stop.
    left = {key: a for key in state.children.values() if list_left(state, a := state.activations[key])}
    for activation in sorted(left.values(), key=in_schedule):
        effects.extend(fx.StopChild(child=child) for child in list_left(state, activation))
    effects.extend(fx.StartMore(address=state.address(a)) for a in waiting if has_more_items(state, a))
    if state.ir.streams:
        effects.extend(closings(state))
    for box in state.triggers.values():
        effects.extend(find_stops(box))
    effects.extend(fx.Stop(address=state.address(a)) for a in find_left(state))
    if state.plan:
        activation = state.activations[state.plan[-1]]
        undo = activation.undo
        if undo is not None and undo.state == "queued":
            if child := child_to_undo(state, activation):
                effects.append(fx.StopChild(child=child, rollback=True))
            else:
                effects.append(fx.Dispatch(address=state.address(activation, undo=True)))
    return effects


def _ask_children(state: State, activation: Activation) -> list[fx.Effect]:
    """The children that the asks of a waiting activation still wait for."""
    address, left = state.address(activation), set(list_left(state, activation))
    found: list[fx.Effect] = []
    for child, asked in (activation.ask_children or {}).items():
        if not asked.open or child in left:
            continue
        if state.state in (R.FAILING, R.CANCELLING):
            found.append(fx.StopChild(child=child))
        else:
            about: dict[str, Any] = {"child": child, "workflow": asked.workflow, "inputs": asked.inputs}
            found.append(fx.StartChild(**about, address=address, budget=_budget(state, child)))
    return found


def _child(state: State, activation: Activation) -> fx.Effect:
    if state.state in (R.FAILING, R.CANCELLING):
        return fx.StopChild(child=activation.child)
    return fx.StartChild(
        child=activation.child,
        address=state.address(activation),
        workflow=activation.child_workflow,
        inputs=activation.child_inputs,
        generation=activation.wait.generation if activation.wait is not None else 1,
        budget=_budget(state, activation.child),
    )


def _budget(state: State, child: str) -> Budget | None:
    lent = state.lent.get(child)
    return None if lent is None else lent.budget
