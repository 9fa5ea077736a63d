"""Streams as a coordinator knows them: what a task is told of those it gives and reads, and how readers learn of an end (rule 64)."""

from __future__ import annotations

import logging

import msgspec

from perdure.kernel import effects as fx
from perdure.kernel.lifecycle import NodeState
from perdure.kernel.state import Activation, State
from perdure.kernel.streams.stream_readers import find_covered, sources
from perdure.kernel.values import Error
from perdure.streams import Flowing, Outgoing, Over, Source, Streams, cursor_of, stream_name
from perdure.transport import TransportUnavailable

_LONGEST = 1000
logger = logging.getLogger("perdure.coordinator")


def flow_of(state: State, activation: Activation) -> Flowing | None:
    """The streams of an attempt that is sent; None where its node has none."""
    spec = state.pinned(activation).stream
    if spec is None or activation.scope or activation.item >= 0:
        return None
    ir = state.irs[activation.ir]
    edges = [ir.edges[number] for number in state.node_in(activation.ir, activation.node).edges_out]
    read = tuple(sorted({out for edge in edges for out, _ in edge.ports}))
    reads = [
        _source(state, activation, found, port, into)
        for edge, found in sources(state, activation)
        for port, into in edge.ports
    ]
    out = Outgoing(spec.collect, spec.buffer, spec.ports, read, spec.restart)
    flow = activation.flow
    if flow is not None and activation.node in state.streams:  # it goes on
        covered = ((port, cursor) for port, cursor in find_covered(state, activation) if len(cursor) > 2)
        checks = tuple((port, cursor[1], cursor[2]) for port, cursor in covered)
        kept = {part.port: part.upto for part in flow.parts}
        checks += tuple((port, kept[port], chain) for port, chain in flow.chains.items())
        out = msgspec.structs.replace(out, edition=flow.edition, parts=flow.parts, checks=checks)
    return Flowing(out, tuple(reads), spec.early)


def _source(state: State, reader: Activation, found: Activation, port: str, into: str) -> Source:
    flow = found.flow
    parts = () if flow is None else tuple(part for part in flow.parts if part.port == port)
    spec = state.pinned(found).stream
    repeats = spec is not None and spec.restart == "repeat"
    edition = 0 if flow is None else flow.edition
    source = Source(state.name(found.node), port, into, edition, parts=parts, repeats=repeats)
    if found.state is NodeState.COMPLETED:
        chunks = 0 if flow is None else sum(end.chunks for end in flow.ends if end.port == port)
        source = msgspec.structs.replace(source, state="end", chunks=chunks)
    elif found.node not in state.streams:
        source = msgspec.structs.replace(source, state="broken", error=_say(found.error))
    edition, after, *chain = (reader.cursors or {}).get(cursor_of(source), (0, 0))
    if not after or edition != source.edition:
        return source
    return msgspec.structs.replace(source, after=after, chain=chain[0] if chain else 0)


def _say(error: Error | None) -> str:
    return "" if error is None else f"{error.code}: {error.message}"[:_LONGEST]


async def tell_store(
    streams: Streams | None, state: State, effect: fx.CloseStream | fx.DropStreams, incarnation: int
) -> None:
    """As `_tell_store`; where the store is away, readers ask again, and what nobody drops ends by itself."""
    try:
        await _tell_store(streams, state, effect, incarnation)
    except TransportUnavailable as error:
        logger.info("run %s: the store of its streams was not told of an end: %s", state.run_id, error)


async def _tell_store(
    streams: Streams | None, state: State, effect: fx.CloseStream | fx.DropStreams, incarnation: int
) -> None:
    """Tell the readers of an edition that it is over, as they may have been before; or forget all streams of a run."""
    if streams is None:
        return
    if isinstance(effect, fx.DropStreams):
        await streams.drop(state.run_id)
        return
    address = effect.address
    source = state.locate(address)
    spec = None if source is None else state.pinned(source).stream
    if source is None or spec is None:
        return
    over = None if effect.reason == "restart" else Over(effect.reason, _say(effect.error))
    flow = source.flow if source.flow is not None and source.flow.edition == address.attempt else None
    for port in ("out", *spec.ports):
        chunks = 0 if flow is None else sum(end.chunks for end in flow.ends if end.port == port)
        parts = () if flow is None else tuple(part for part in flow.parts if part.port == port)
        name = stream_name(address.run_id, address.node, port, state.tenant, incarnation)
        await streams.close(name, address.attempt, over, chunks, parts)
