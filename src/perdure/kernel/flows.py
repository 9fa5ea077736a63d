"""What becomes of open streams as their activations move on (rules 62 to 67, 70): called before and after every decision's joins.

An edition lasts exactly as long as the attempt that it is named by. One that ends with it, accepted, is whole; one that breaks off
because the attempt did takes its readers with it, unless the graph has handled the failure: then they are told.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel.decider import Decider, in_schedule
from perdure.kernel.dispatches import hold_back
from perdure.kernel.lifecycle import NodeState, RunState
from perdure.kernel.outcomes import park
from perdure.kernel.state import Activation, State
from perdure.kernel.stream_readers import find_unread, is_fed, readers
from perdure.kernel.values import Error

N, R = NodeState, RunState

_AT_WORK = (N.QUEUED, N.RUNNING)


def find_problem(d: Decider, activation: Activation, command: c.Complete) -> Error | None:
    """Why an outcome cannot be accepted for the sake of streams; None if it can."""
    name, attempt = d.state.name(activation.node), command.address.attempt
    source = find_unread(d.state, activation)
    if source is not None:
        message = f"{name} returned, and the stream of {d.state.name(source.node)} has not ended; read it to its end, or say stream: {{early: true}}"
        return Error("stream_open", message)
    if d.state.streams.get(activation.node) == attempt and not command.ended:
        return Error("bad_output", f"{name} has streamed, and its result does not say how much")
    spec = d.state.pinned(activation).stream
    known = () if spec is None else ("out", *spec.ports)
    ports = {end.port for end in command.ended} | {part.port for part in command.parts}
    if ports and (activation.scope or activation.item >= 0 or not ports <= set(known)):
        return Error("no_such_port", f"{name} has streamed from a port that its definition does not have")
    return None


def is_of_another(d: Decider, activation: Activation, command: c.Complete) -> bool:
    """Whether another execution of the same attempt streams, as the task was delivered twice: only its outcome counts."""
    flow = activation.flow
    is_open = flow is not None and d.state.streams.get(activation.node) == command.address.attempt
    return is_open and flow is not None and flow.writer != command.writer


def end(d: Decider, activation: Activation, command: c.Complete) -> None:
    """End the stream of an attempt whose outcome is accepted in this same append (rule 64)."""
    edition = command.address.attempt
    if d.state.streams.get(activation.node) != edition:  # it had yielded nothing yet, or the word of it was lost
        ports = tuple(end.port for end in command.ended)
        d.emit_for(
            e.StreamOpened, activation, attempt=edition, edition=edition, ports=ports, version=2, writer=command.writer
        )
    flow = activation.flow
    kept = () if flow is None else flow.parts
    known = {(part.port, part.upto) for part in kept}
    parts = (*kept, *(part for part in command.parts if (part.port, part.upto) not in known))
    _close(d, activation, edition, "end", ports=command.ended, parts=parts)


def follow(d: Decider) -> list[Activation]:
    """Close the editions whose attempts are over, and stop their readers. The readers that were held and can go now."""
    state = d.state
    while broken := _find_broken(d):
        for activation, edition in broken:
            _break_off(d, activation, edition)
    found: list[Activation] = []
    for key in list(state.unfed) if state.state is R.RUNNING else ():
        activation = state.activations[key]
        if activation.state is not N.HELD or activation.reason != "stream":
            state.drop(state.unfed, key)
        elif is_fed(state, activation):
            found.append(activation)
    return sorted(found, key=in_schedule)


def close_all(d: Decider) -> None:
    """Close every stream of a run that ends: none is open after it (F10)."""
    for node, edition in sorted(d.state.streams.items()):
        _close(d, d.state.activations[node], edition, "cancelled", stops=True)


def _find_broken(d: Decider) -> list[tuple[Activation, int]]:
    found = []
    for node, edition in sorted(d.state.streams.items()):
        activation = d.state.activations[node]
        if activation.attempt != edition or activation.state not in _AT_WORK:
            found.append((activation, edition))
    return found


def _break_off(d: Decider, activation: Activation, edition: int) -> None:
    if d.state.streams.get(activation.node) != edition:
        return
    if activation.state is N.FAILED:
        reason: Literal["failed", "cancelled", "restart"] = "failed"
    elif activation.state is N.CANCELLED or activation.state is N.SKIPPED:
        reason = "cancelled"
    else:
        reason = "restart"
    # What the graph has handled, readers are told of; in a run that fails they could only make an outcome of a piece.
    stops = reason == "restart" or d.state.state not in (R.RUNNING, R.PAUSED)
    _close(d, activation, edition, reason, stops=stops)
    if stops:
        _stop_readers(d, activation)


def _stop_readers(d: Decider, source: Activation) -> None:
    held: list[Activation] = []
    for reader in sorted(readers(d.state, source), key=in_schedule):
        if reader.state not in (N.QUEUED, N.RUNNING, N.RETRYING):
            continue
        if reader.state is not N.RETRYING:
            d.stop(reader)
        if d.state.pinned(reader).effect == "at_most_once" and reader.begun:
            name = d.state.name(source.node)
            message = f"the stream of {name} begins anew, and whether the effect happened is unknown"
            park(d, reader, Error("stream_restarted", message))
        else:
            held.append(reader)
    hold_back(d, held, "stream")


def _close(
    d: Decider,
    activation: Activation,
    edition: int,
    reason: Literal["end", "failed", "cancelled", "restart"],
    **fields: Any,
) -> None:
    d.emit_for(e.StreamClosed, activation, attempt=edition, edition=edition, reason=reason, version=2, **fields)
    d.effect(_closing(d.state, activation, edition, reason))


def closings(state: State) -> list[fx.CloseStream]:
    """What readers at work must be told again, as the word may have been lost: that an edition which they read is over."""
    found: list[fx.CloseStream] = []
    for source in sorted((a for a in state.activations.values() if a.flow is not None), key=in_schedule):
        if source.flow is None or source.flow.state == "open":
            continue
        if any(reader.state in _AT_WORK for reader in readers(state, source)):
            found.append(_closing(state, source, source.flow.edition, source.flow.state))
    return found


def _closing(
    state: State, activation: Activation, edition: int, reason: Literal["end", "failed", "cancelled", "restart"]
) -> fx.CloseStream:
    address = msgspec.structs.replace(state.address(activation), attempt=edition)
    return fx.CloseStream(address=address, reason=reason, error=activation.error if reason == "failed" else None)
