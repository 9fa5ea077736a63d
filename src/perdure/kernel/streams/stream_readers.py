"""Who reads whose stream, and whether it can be read: a walk over the stream edges of the IR."""

from __future__ import annotations

from collections.abc import Iterator

from perdure.kernel.lifecycle import ENDED, ERROR, TAKEN, N
from perdure.kernel.state import Activation, State
from perdure.kernel.values import with_data
from perdure.model.ir import Edge

_LED = (TAKEN, ERROR)


def sources(state: State, reader: Activation) -> Iterator[tuple[Edge, Activation]]:
    """The activations whose streams this one reads, each with its edge. Streams are outside of loops (rule 71)."""
    if reader.scope or reader.item >= 0:
        return
    ir = reader.ir if reader.fired else len(state.irs) - 1
    for number in state.node_in(ir, reader.node).edges_in:
        edge = state.irs[ir].edges[number]
        if edge.ports and reader.edges.get(edge.source) in _LED:
            found = state.activations.get(edge.source)
            if found is not None:
                yield edge, found


def readers(state: State, source: Activation) -> Iterator[Activation]:
    """The activations that this one's stream has led to."""
    ir = len(state.irs) - 1
    for number in state.node_in(ir, source.node).edges_out:
        edge = state.irs[ir].edges[number]
        found = state.activations.get(edge.target) if edge.ports else None
        if found is not None and found.edges.get(edge.source) in _LED:
            yield found


def is_lasting(state: State, source: Activation) -> bool:
    """Whether what it has yielded counts also when an attempt of it breaks off: the next one goes on with the same edition."""
    spec = state.pinned(source).stream
    return spec is not None and spec.restart != "anew"


def find_covered(state: State, source: Activation) -> Iterator[tuple[str, tuple[int, ...]]]:
    """How far each port of an open edition was read for what readers have kept: edition, number and what the chunks came to."""
    name = state.name(source.node)
    for reader in readers(state, source):
        for cursor, found in (reader.cursors or {}).items():
            node, _, rest = cursor.partition(".")
            if node == name and source.flow is not None and found[0] == source.flow.edition:
                yield rest.partition(".")[0], found


def is_fed(state: State, reader: Activation) -> bool:
    """Whether each stream that the activation reads is being made, or over."""
    return all(is_made(state, source) or source.state in ENDED for _, source in sources(state, reader))


def is_made(state: State, source: Activation) -> bool:
    """Whether an attempt is at work on its stream. One that goes on may be open while nobody is."""
    flow = source.flow
    at_work = source.state in (N.QUEUED, N.RUNNING)
    return source.node in state.streams and at_work and flow is not None and flow.by == source.attempt


def find_unread(state: State, reader: Activation) -> Activation | None:
    """A source whose stream has not ended, though the reader has; None also where the reader may end early."""
    spec = state.pinned(reader).stream
    if spec is None or spec.early:
        return None
    return next((source for _, source in sources(state, reader) if source.state not in ENDED), None)


def forget_old(state: State, reader: Activation) -> None:
    """Forget the checkpoint of a reader that is scheduled, if it is of another edition than a source has now (rule 66)."""
    now = {
        state.name(source.node): 0 if source.flow is None else source.flow.edition
        for _, source in sources(state, reader)
    }
    if any(now.get(name.partition(".")[0]) != cursor[0] for name, cursor in (reader.cursors or {}).items()):
        forget(reader)


def forget(reader: Activation) -> None:
    """Forget how far a reader has come: it was made of an edition that is over. Its steps stay: they were done."""
    reader.cursors = None
    if reader.checkpoint is not None:
        reader.checkpoint = with_data(reader.checkpoint, None)
