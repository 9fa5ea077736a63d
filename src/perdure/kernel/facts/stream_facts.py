"""What streams do to the state: edges that resolve, editions that are over, readers whose work counts no more."""

from __future__ import annotations

import msgspec

from perdure.kernel import events as e
from perdure.kernel.edges import resolve
from perdure.kernel.facts.fold_rules import folds, get
from perdure.kernel.lifecycle import ENDED, TAKEN, IntegrityError, NodeState, RunState
from perdure.kernel.state import State
from perdure.kernel.stream_readers import forget, readers
from perdure.kernel.values import Flow

N, R = NodeState, RunState


@folds(e.StreamOpened)
def _stream_opened(state: State, event: e.StreamOpened) -> None:
    activation = get(state, event)
    if activation.flow is not None and event.edition <= activation.flow.edition:
        raise IntegrityError(f"run {state.run_id}: edition {event.edition} of {event.node} is not new (F2)")
    activation.flow = Flow(event.edition, writer=event.writer)
    state.put(state.streams, activation.node, event.edition)
    if state.state in (R.RUNNING, R.PAUSED):  # what is kept of an ending run leads on when it is routed
        ir = len(state.irs) - 1
        for number in state.node_in(ir, activation.node).edges_out:
            edge = state.irs[ir].edges[number]
            if edge.ports:
                resolve(state, edge, ir, activation, TAKEN)


@folds(e.StreamKept)
def _stream_kept(state: State, event: e.StreamKept) -> None:
    activation = get(state, event)
    if activation.flow is not None:
        activation.flow = msgspec.structs.replace(activation.flow, parts=(*activation.flow.parts, event.part))


@folds(e.StreamClosed)
def _stream_closed(state: State, event: e.StreamClosed) -> None:
    activation = get(state, event)
    if event.reason == "end":
        activation.flow = Flow(event.edition, "end", event.parts, event.ports)
    elif activation.flow is not None:
        activation.flow = msgspec.structs.replace(activation.flow, state=event.reason)
    state.drop(state.streams, activation.node)
    if not event.stops:
        return
    activation.suspended = max(activation.suspended, event.edition)
    for reader in readers(state, activation):
        if reader.state not in ENDED:
            state.edit(reader)
            reader.suspended = max(reader.suspended, reader.attempt)
            forget(reader)
