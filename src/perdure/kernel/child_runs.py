"""The child runs of an activation: that of a `workflow` node, and those that its handler asked for (rules 35 and 80)."""

from __future__ import annotations

import re

from perdure.kernel.lifecycle import ENDED, N, R
from perdure.kernel.run_ids import root_of
from perdure.kernel.state import Activation, State
from perdure.kernel.values import AskedChild, Error

MOST_SAID = 1_000
"""The most characters of the message of an error that tells of another error."""

_TOLD = re.compile(r"(?P<child>\S+) failed: (?P<cause>.*?)( \(in (?P<inner>\S+)\))?", re.DOTALL)


def child_failure(child: str, error: Error | None) -> Error:
    """The failure of an attempt whose child failed. However deep the runs are nested, it says what went wrong first, and in which run."""
    if error is None:
        return Error("child_failed", f"{child} failed")
    cause, inner = f"{error.code}: {error.message}" if error.message else error.code, ""
    told = _TOLD.fullmatch(error.message) if error.code == "child_failed" else None
    if told is not None and root_of(told["child"]) == root_of(child):
        cause, inner = told["cause"], told["child"]
        if told["inner"] and root_of(told["inner"]) == root_of(child):
            inner = told["inner"]
        elif told["inner"]:  # it is a part of what was said
            cause = error.message.partition(" failed: ")[2]
    place = f" (in {inner})" if inner else ""
    return Error("child_failed", f"{child} failed: {cause}"[: MOST_SAID - len(place)] + place, details=error.details)


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
