"""What streams do to the state: edges that resolve, editions that are over, readers whose work counts no more."""

from __future__ import annotations

import msgspec

from perdure.kernel import events as e
from perdure.kernel.edges import resolve
from perdure.kernel.facts.fold_rules import folds, get
from perdure.kernel.lifecycle import ENDED, TAKEN, IntegrityError, R
from perdure.kernel.state import State
from perdure.kernel.streams.stream_readers import forget, is_lasting, readers
from perdure.kernel.values import Flow


@folds(e.StreamOpened)
def _stream_opened(state: State, event: e.StreamOpened) -> None:
    activation = get(state, event)
    flow = activation.flow
    if flow is not None and state.streams.get(activation.node) == event.edition and event.attempt > flow.by:
        activation.flow = msgspec.structs.replace(flow, attempt=event.attempt, writer=event.writer)
        return  # it goes on
    if flow is not None and event.edition <= flow.edition:
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
        part, known = event.part, activation.flow.parts
        if event.after >= 0:
            known = tuple(one for one in known if one.port != part.port or one.upto <= event.after)
        chains = activation.flow.chains
        if event.chain:
            chains = {**chains, part.port: event.chain}
        activation.flow = msgspec.structs.replace(activation.flow, parts=(*known, part), chains=chains)


@folds(e.StreamClosed)
def _stream_closed(state: State, event: e.StreamClosed) -> None:
    activation = get(state, event)
    if event.reason == "end":
        attempt = 0 if event.attempt == event.edition else event.attempt
        activation.flow = Flow(event.edition, "end", event.parts, event.ports, attempt=attempt)
    elif activation.flow is not None:
        activation.flow = msgspec.structs.replace(activation.flow, state=event.reason)
        if event.version >= 3 or is_lasting(state, activation):
            forget(activation)  # it was kept to go on with what is over
    state.drop(state.streams, activation.node)
    if not event.stops:
        return
    activation.suspended = max(activation.suspended, event.edition, event.attempt)
    for reader in readers(state, activation):
        if reader.state not in ENDED:
            state.edit(reader)
            reader.suspended = max(reader.suspended, reader.attempt)
            forget(reader)
