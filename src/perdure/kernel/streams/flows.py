"""What becomes of open streams as their activations move on (rules 62 to 67, 70): called before and after every decision's joins.

An edition lasts as long as the attempt that it is named by, or, of a node that can go on (`restart`), until an attempt ends for good.
One that ends with it, accepted, is whole; one that breaks off because the attempt did takes its readers with it, unless the graph has
handled the failure: then they are told.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel.decider import Decider, in_schedule
from perdure.kernel.dispatches import hold_back
from perdure.kernel.lifecycle import ENDED, N, R
from perdure.kernel.outcomes import park
from perdure.kernel.state import Activation, State
from perdure.kernel.streams.stream_readers import find_covered, find_unread, is_fed, is_lasting, readers
from perdure.kernel.values import Error, Flow

_AT_WORK = (N.QUEUED, N.RUNNING)
DIVERGED = "stream_diverged"


def find_problem(d: Decider, activation: Activation, command: c.Complete) -> Error | None:
    """Why an outcome cannot be accepted for the sake of streams; None if it can."""
    name = d.state.name(activation.node)
    source = find_unread(d.state, activation)
    if source is not None:
        message = f"{name} returned, and the stream of {d.state.name(source.node)} has not ended; read it to its end, or say stream: {{early: true}}"
        return Error("stream_open", message)
    if activation.node in d.state.streams and not command.ended:
        return Error("bad_output", f"{name} has streamed, and its result does not say how much")
    spec = d.state.pinned(activation).stream
    known = () if spec is None else ("out", *spec.ports)
    ports = {end.port for end in command.ended} | {part.port for part in command.parts}
    if ports and (activation.scope or activation.item >= 0 or not ports <= set(known)):
        return Error("no_such_port", f"{name} has streamed from a port that its definition does not have")
    if command.ended and activation.node in d.state.streams and activation.flow is not None:
        return _find_short(d.state, activation, activation.flow, command)
    return None


def _find_short(state: State, activation: Activation, flow: Flow, command: c.Complete) -> Error | None:
    """Why an edition cannot end here: more of it is stored, or was read for what a reader has kept."""
    ended = {end.port: end.chunks for end in command.ended}
    known = [(part.port, part.upto) for part in flow.parts]
    known += [(port, cursor[1]) for port, cursor in find_covered(state, activation)]
    for port, number in known:
        if ended.get(port, 0) < number:
            said = f"{state.name(activation.node)} ended after {ended.get(port, 0)} chunks of {port}, and has yielded {number} before"
            return Error(DIVERGED, said)
    return None


def find_open(state: State, activation: Activation, attempt: int) -> Flow | None:
    """The stream that this attempt has open."""
    flow = activation.flow
    return flow if flow is not None and activation.node in state.streams and flow.by == attempt else None


def has_diverged(d: Decider, activation: Activation, error: Error) -> bool:
    """Whether an attempt has yielded something else than the one before it, whose edition it was to repeat. It is none of its
    faults, and cannot go on: of an edition of its own nobody can say that."""
    spec = d.state.pinned(activation).stream
    repeats = error.code == DIVERGED and spec is not None and spec.restart == "repeat"
    return repeats and d.state.streams.get(activation.node, activation.attempt) != activation.attempt


def begin_anew(d: Decider, activation: Activation, error: Error) -> None:
    """End an edition that was not repeated; its readers begin anew with the next one."""
    _break_off(d, activation, d.state.streams[activation.node], error)


def is_of_another(d: Decider, activation: Activation, command: c.Complete) -> bool:
    """Whether another execution of the same attempt streams, as the task was delivered twice: only its outcome counts."""
    flow = find_open(d.state, activation, command.address.attempt)
    return flow is not None and flow.writer != command.writer


def end(d: Decider, activation: Activation, command: c.Complete) -> None:
    """End the stream of an attempt whose outcome is accepted in this same append (rule 64)."""
    attempt = command.address.attempt
    if find_open(d.state, activation, attempt) is None:  # it had yielded nothing yet, or the word of it was lost
        before = d.state.streams.get(activation.node)
        about: dict[str, Any] = {"ports": tuple(end.port for end in command.ended), "writer": command.writer}
        about |= {"edition": attempt, "version": 2} if before is None else {"edition": before, "version": 3}
        d.emit_for(e.StreamOpened, activation, attempt=attempt, **about)
    flow = activation.flow
    kept = () if flow is None or is_lasting(d.state, activation) else flow.parts  # who goes on knows all of them
    known = {(part.port, part.upto) for part in kept}
    parts = (*kept, *(part for part in command.parts if (part.port, part.upto) not in known))
    edition = d.state.streams[activation.node]
    _close(d, activation, edition, "end", attempt=attempt, ports=command.ended, parts=parts)


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
        if is_lasting(d.state, activation):
            goes_on = d.state.state in (R.RUNNING, R.PAUSED) and activation.state not in ENDED
            if not goes_on and activation.state not in _AT_WORK:
                found.append((activation, edition))
        elif activation.attempt != edition or activation.state not in _AT_WORK:
            found.append((activation, edition))
    return found


def _break_off(d: Decider, activation: Activation, edition: int, error: Error | None = None) -> None:
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
    fields: dict[str, Any] = {"stops": stops, "error": error}
    if reason == "restart":  # what it kept as its own data is over too: it would leave out what was yielded before
        fields["version"] = 3
    _close(d, activation, edition, reason, **fields)
    if stops:
        _stop_readers(d, activation)


def _stop_readers(d: Decider, source: Activation) -> None:
    """Stop the readers of an edition that is over. What they have made of it is over too, whatever their own `restart` (G16)."""
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
    for reader in sorted(readers(d.state, source), key=in_schedule):
        if reader.node in d.state.streams and reader.state not in ENDED and is_lasting(d.state, reader):
            _break_off(d, reader, d.state.streams[reader.node])


def _close(
    d: Decider,
    activation: Activation,
    edition: int,
    reason: Literal["end", "failed", "cancelled", "restart"],
    *,
    attempt: int = 0,
    **fields: Any,
) -> None:
    if not attempt:
        attempt = activation.attempt if is_lasting(d.state, activation) else edition
    fields = {"version": 2, **fields}
    d.emit_for(e.StreamClosed, activation, attempt=attempt, edition=edition, reason=reason, **fields)
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
