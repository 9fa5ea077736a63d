"""Which activation receives for a mailbox, and which attempts poll (rules 51 and 54). Looks at the state, and decides nothing."""

from __future__ import annotations

from typing import Any

from perdure.kernel.edges import latest
from perdure.kernel.lifecycle import N
from perdure.kernel.state import Activation, State
from perdure.kernel.triggers.mailbox import Mailbox

OUT = (N.QUEUED, N.RUNNING)


def find_receiver(state: State, node: str) -> Activation | None:
    """The activation that receives; of a node in loops, that of the last iteration."""
    if not state.triggers[node].inner:
        return state.find(node)
    return latest(state, state.index(node), (), len(state.irs) - 1)


def is_poll(state: State, activation: Activation) -> bool:
    """Whether an attempt of this activation polls a source. Inside a run it does not where something has come before: then that is
    its answer."""
    if not state.triggers or activation.item >= 0:
        return False
    box = state.triggers.get(state.name(activation.node))
    return box is not None and box.source != "" and not (box.inner and (box.waiting or box.ended))


def find_inner_polls(state: State) -> list[Activation]:
    """The polls of nodes inside this run that are out."""
    boxes = [node for node, box in sorted(state.triggers.items()) if box.inner and box.source]
    found = [find_receiver(state, node) for node in boxes]
    return [activation for activation in found if activation is not None and activation.state in OUT]


def is_answered(box: Mailbox, activation: Activation) -> bool:
    """Whether the attempt that is out has brought what it had."""
    current = (box.polled, box.polled_in) == (activation.attempt, activation.scope)
    return activation.state in OUT and current


def say_source(box: Mailbox) -> str:
    """What a node waits for, in words: `the event order.paid of 7`."""
    source: dict[str, Any] = box.spec.get("source", {}) if isinstance(box.spec, dict) else {}
    if box.kind == "event" and source.get("name"):
        return f"the event {source['name']}" + (f" of {source['key']}" if source.get("key") else "")
    if box.kind == "runs" and source.get("workflow"):
        return f"the end of a run of {source['workflow']}"
    return "a moment of its schedule" if box.kind == "schedule" else f"the next item of its {box.kind}"


def starts_runs(state: State) -> bool:
    """Whether the run is a trigger, and not one that has triggers among its nodes."""
    return any(not box.inner for box in state.triggers.values())
