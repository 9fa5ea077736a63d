"""The child runs of an activation: that of a `workflow` node, and those that its handler asked for (rules 35 and 80)."""

from __future__ import annotations

from perdure.kernel.lifecycle import ENDED, NodeState, RunState
from perdure.kernel.state import Activation, State
from perdure.kernel.values import AskedChild

N, R = NodeState, RunState


def list_left(state: State, activation: Activation) -> list[str]:
    """The children that are to be stopped: the activation has ended, or will end with its run, and not by them."""
    left: list[str] = []
    if activation.child_open:
        ending = state.state in (R.FAILING, R.CANCELLING)
        if activation.state in ENDED or (activation.state is N.PARKED and ending):
            left.append(activation.child)
    for child, asked in (activation.ask_children or {}).items():
        if asked.open and not _is_wanted(activation, child, asked):
            left.append(child)
    return left


def find_generation(state: State, child: str) -> int | None:
    """The last generation of a child that is known to have ended; None if there is no such child."""
    key = state.children.get(child)
    if key is None:
        return None
    asked = (state.activations[key].ask_children or {}).get(child)
    return state.activations[key].child_generation if asked is None else asked.generation


def _is_wanted(activation: Activation, child: str, asked: AskedChild) -> bool:
    """Whether the activation waits for this child of an ask."""
    ask = activation.asks[asked.ask]
    return activation.state is N.WAITING and ask.open and ask.child == child


def waits_for_child(activation: Activation) -> bool:
    """Whether an activation that has had children waits for one."""
    if activation.state is not N.WAITING:
        return False
    return not activation.asks or any(asked.open for asked in (activation.ask_children or {}).values())


def open_children(activation: Activation) -> list[str]:
    """The children of an activation that are not known to have ended."""
    found = [activation.child] if activation.child_open else []
    return found + [child for child, asked in (activation.ask_children or {}).items() if asked.open]


def next_undone(activation: Activation) -> str:
    """The child of an ask that is to be undone next: the last one that completed. Empty: none is left (rule 80)."""
    done = [(asked.done, child) for child, asked in (activation.ask_children or {}).items() if asked.done]
    return max(done)[1] if done else ""
