"""How a poll ends that brings nothing: stopped, put off because it failed, or left by a worker that died (rule 51).

A poll is an attempt of the node of a trigger. Between polls the node waits, as that of any trigger does.
"""

from __future__ import annotations

import msgspec

from perdure.kernel import commands as c
from perdure.kernel import events as e
from perdure.kernel.decider import Decider, Refusal
from perdure.kernel.lifecycle import N
from perdure.kernel.state import Activation, State
from perdure.kernel.triggers.mailbox import Cursor, Mailbox
from perdure.kernel.triggers.receivers import OUT, find_receiver
from perdure.kernel.values import Error, Wait

SHORTEST_BACKOFF = 1.0
LONGEST_BACKOFF = 300.0
SLEPT_SECONDS = 60.0
"""A poll that has lasted so long sleeps most of its time: its worker did not die of it."""


def rest(d: Decider, activation: Activation) -> None:
    d.emit_for(e.NodeWaiting, activation, wait=Wait(kind="trigger"))


def stop_polls(d: Decider) -> None:
    """Stop every poll: the cursors stay, and what the attempts bring from here on is not taken in."""
    for node, box in d.state.triggers.items():
        if box.source:
            stop_poll(d, node)


def stop_poll(d: Decider, node: str) -> None:
    activation = find_receiver(d.state, node)
    if activation is None:
        return
    if activation.state in OUT:
        d.stop(activation)
    if activation.state in OUT or activation.state is N.RETRYING:
        rest(d, activation)


def find_left(state: State) -> list[Activation]:
    """The nodes whose last poll was stopped, or is answered: a worker that was not told may poll on for ever."""
    found = [find_receiver(state, node) for node, box in sorted(state.triggers.items()) if box.source]
    return [a for a in found if a is not None and a.state is N.WAITING and a.attempt > 1]


def change_source(d: Decider, command: c.Register, box: Mailbox) -> Cursor:
    """The cursor under the next revision. Another source has other items, so a person says where it begins; the poll in
    flight is void. One that only maps otherwise keeps the poll: what that brings is mapped by the new revision."""
    if bool(command.source) != bool(box.source):
        raise Refusal("kind_changed", f"{box.name} is a {box.kind} and stays one; give another trigger another name")
    if (command.source, command.manner) == (box.source, box.manner):
        return box.cursor
    if command.source != box.source and not command.begins:
        message = f"{box.name} reads another source; say where it begins: from start, end or cursor"
        raise Refusal("from_needed", message)
    stop_poll(d, command.node)
    return box.cursor if command.begins == "cursor" or command.source == box.source else None


def put_off(d: Decider, activation: Activation, error: Error) -> None:
    """Poll again later, from the same cursor: for ever, less and less often."""
    failures = 0 if has_lasted(activation, d.at, LONGEST_BACKOFF) else activation.failures
    delay = min(SHORTEST_BACKOFF * 2 ** min(failures, 20), LONGEST_BACKOFF) * (0.5 + d.command.entropy / 2)
    error = msgspec.structs.replace(error, attempts=activation.failures + 1)
    d.emit_for(e.NodeRetrying, activation, error=error, retry_at=d.at + delay)


def has_slept(activation: Activation, at: float) -> bool:
    return has_lasted(activation, at, SLEPT_SECONDS)


def has_lasted(activation: Activation, at: float, seconds: float) -> bool:
    began = activation.scheduled_at if activation.started_at is None else activation.started_at
    return at - began > seconds
