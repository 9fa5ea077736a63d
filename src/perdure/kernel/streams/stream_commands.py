"""Streams between nodes (rules 61 to 73): when one opens, what breaks it off, and who begins anew then.

The kernel never sees a chunk. An edition is what one attempt yields; it is named by that attempt, and what any reader has read
of it never changes. So whatever ends that attempt without success ends the edition, and its readers with it.
"""

from __future__ import annotations

from typing import Any

from perdure.kernel import commands as c
from perdure.kernel import events as e
from perdure.kernel.attempts import fence
from perdure.kernel.decider import Decider
from perdure.kernel.dispatches import hold_back
from perdure.kernel.lifecycle import N, R
from perdure.kernel.outcomes import fail_attempt
from perdure.kernel.streams.flows import closings, find_open
from perdure.kernel.streams.stream_readers import is_made, sources
from perdure.kernel.values import Error


def open_stream(d: Decider, command: c.OpenStream) -> None:
    """Open the stream of an attempt that has begun to yield: its readers may begin (rule 61)."""
    activation = fence(d, command)
    if activation is None:
        return
    edition, flow = d.state.streams.get(activation.node), activation.flow
    if edition is not None and flow is not None and flow.by == command.address.attempt:
        return
    if d.state.pinned(activation).effect == "at_most_once" and not activation.begun:
        return  # it may not have begun without leave (rule 33)
    spec = d.state.pinned(activation).stream
    known = () if spec is None else ("out", *spec.ports)
    if activation.scope or activation.item >= 0 or not set(command.ports) <= set(known):
        name, ports = d.state.name(activation.node), ", ".join(sorted(set(command.ports) - set(known)))[:200]
        message = (
            f"{name} streams from {ports}, which its definition does not have; add stream: {{ports: […]}} to the node"
        )
        fail_attempt(d, activation, Error("no_such_port", message), retryable=False)
        return
    if activation.state is N.QUEUED:  # from here on it is known to have begun: it is not sent again, but lapses
        d.emit_for(e.NodeStarted, activation, worker=command.worker)
    about: dict[str, Any] = {"ports": command.ports, "writer": command.writer}
    if edition is None:
        d.emit_for(e.StreamOpened, activation, edition=command.address.attempt, **about, version=2)
    else:  # it goes on with what an attempt before it has begun (rule 63)
        d.emit_for(e.StreamOpened, activation, edition=edition, **about, version=3)


def keep_stream(d: Decider, command: c.KeepStream) -> None:
    """Note that a piece of an open stream is stored, once."""
    activation = fence(d, command)
    flow = None if activation is None else find_open(d.state, activation, command.address.attempt)
    if activation is None or flow is None:
        return
    spec, part = d.state.pinned(activation).stream, command.part
    if spec is not None and spec.restart == "checkpoint":
        return  # what no checkpoint covers, no reader sees
    before = max((one.upto for one in flow.parts if one.port == part.port), default=0)
    if part.upto > before:
        chained: dict[str, Any] = {"chain": command.chain, "version": 2} if command.chain else {}
        d.emit_for(e.StreamKept, activation, edition=flow.edition, part=part, **chained)


def tell_again(d: Decider, command: c.TellStreams) -> None:
    """Tell a reader again which of its streams are over. Where one goes on and nobody is at work on it, the reader is put
    aside: it may have the very place that its source waits for."""
    activation = fence(d, command)
    if activation is None:
        return
    idle = any(s.node in d.state.streams and not is_made(d.state, s) for _, s in sources(d.state, activation))
    risky = d.state.pinned(activation).effect == "at_most_once" and activation.begun
    if idle and not risky and d.state.state in (R.RUNNING, R.PAUSED):
        d.stop(activation)
        hold_back(d, [activation], "stream")
        return
    names = {d.state.name(source.node) for _, source in sources(d.state, activation)}
    for effect in closings(d.state):
        if effect.address.node in names:
            d.effect(effect)
