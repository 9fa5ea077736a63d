"""What a wait for an event counts from, and what the run that continues another is told of it (rule 53)."""

from __future__ import annotations

import msgspec

from perdure.kernel.state import Activation, State
from perdure.kernel.values import Heard, Wait, heard_as

SKEW_SECONDS = 1.0
"""How far the clocks of processes may be apart: an event that came just behind the start of a run may be dated before it."""
MOST_HEARD = 10_000
"""How many of the latest waits a continuing run is told of; the others count from the first of those on."""
_OTHERS = ""


def begin_listening(state: State, activation: Activation, wait: Wait) -> Wait:
    """The wait with what it counts from: behind the event that it took last, and not from before the run."""
    last = state.heard
    since = last.get(heard_as(state.name(activation.node), activation.item, wait), last.get(_OTHERS, 0))
    since_at = wait.since_at
    if since_at is None:
        since_at = begin_of(state)
    return msgspec.structs.replace(wait, since=since, since_at=since_at - SKEW_SECONDS)


def tell_heard(state: State) -> Heard | None:
    """What the run that continues this one has to know; nothing, where nothing can wait for events."""
    nodes = (node for ir in state.irs[-1:] for node in ir.nodes if node is not None)
    listens = any(node.type == "wait" and isinstance(node.config, dict) and "event" in node.config for node in nodes)
    if not listens and not state.heard:
        return None
    found = sorted(state.heard.items(), key=lambda one: (one[1], one[0]))
    dropped = [position for _, position in found[:-MOST_HEARD]]
    kept = dict(found[-MOST_HEARD:])
    if dropped:
        kept[_OTHERS] = max(dropped)
    return Heard(since=begin_of(state), last=kept)


def begin_of(state: State) -> float:
    """When the run began, or the first one of those that it continues."""
    return state.created_at if state.heard_since is None else state.heard_since
