"""What an activation may read: its causal past at the moment it was scheduled, the same over all attempts (rule 13).

`evidence` gathers just what a condition or a template refers to, as values or blob references; its evaluation needs
nothing else of the run. Reads state, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from perdure.kernel.edges import latest
from perdure.kernel.lifecycle import ENDED, ERROR, OPEN, TAKEN, N
from perdure.kernel.state import Activation, Key, State, key_of
from perdure.kernel.values import Error
from perdure.model.ir import IR, Reference


class Seen(msgspec.Struct, frozen=True, gc=False):  # it holds data only, and a map has 100,000 of them
    """One node's outcome as other nodes see it. A skipped node is seen with no output."""

    state: str
    output: Any = None
    output_ref: str | None = None
    error: Error | None = None
    started_at: float | None = None
    ended_at: float | None = None


class LoopView(msgspec.Struct, frozen=True):
    """The value of `loop` in conditions and templates (rule 15)."""

    iteration: int
    previous: Seen | None = None
    parent: LoopView | None = None


class Evidence(msgspec.Struct, frozen=True):
    """What a verdict is found from, and a template rendered: just what the condition or the template refers to."""

    output: Any = None
    output_ref: str | None = None
    nodes: dict[str, Seen] = {}
    loop: LoopView | None = None
    items: tuple[Seen, ...] = ()


def see(activation: Activation) -> Seen:
    return Seen(
        activation.state._value_,  # `value` is a function in Python, and this is read for every input of every task
        activation.output,
        activation.output_ref,
        activation.error,
        activation.started_at,
        activation.ended_at,
    )


def find_visible(state: State, reader: Activation | None, name: str) -> Activation | None:
    """The activation that `reader` means by `name`; None when there is none that it may see (yet)."""
    ir = len(state.irs) - 1 if reader is None else state.iteration_ir(reader.scope, reader.node)
    index = state.irs[ir].numbers.get(name)
    if index is None:
        return None
    loops = state.node_in(ir, index).loops
    prefix: tuple[int, ...] = ()
    if reader is not None and reader.scope:
        own = state.node_in(ir, reader.node).loops
        shared = 0
        while shared < min(len(own), len(loops)) and own[shared] == loops[shared]:
            shared += 1
        prefix = reader.scope[:shared]
    found = latest(state, index, prefix, ir) if loops else state.activations.get(key_of(index, ()))
    if found is None or not found.ended_seq:
        return None
    if reader is not None:
        moment = reader.scheduled_seq or state.seq + 1
        if found.ended_seq > moment or (loops and not _was_last(state, loops, found, len(prefix), moment)):
            return None
    return found


def _was_last(state: State, loops: tuple[int, ...], found: Activation, depth: int, moment: int) -> bool:
    """Whether the loops between reader and activation were over then: a running one has no last iteration (rule 19)."""
    for inner in range(depth, len(found.scope)):
        run = state.loops.get((loops[inner], found.scope[:inner]))
        if run is None or not run.ended_seq or run.ended_seq > moment:
            return False
        if run.status == "ended":  # and so is everything inside it
            return True
    return True


def _seen_by(state: State, reader: Activation | None, name: str) -> Seen | None:
    if reader is not None and state.overrides:
        instead = state.overrides.get(state.name(reader.node), {})
        if name in instead:
            return Seen(N.COMPLETED.value, instead[name])
    found = find_visible(state, reader, name)
    return None if found is None else see(found)


def evidence(
    state: State,
    reader: Activation | None,
    references: Iterable[Reference],
    *,
    output: Any = None,
    output_ref: str | None = None,
    everything: bool = False,
) -> Evidence:
    """The values these references read, seen from `reader`. `everything`: all of its past, for code that reads it."""
    if everything:
        names = [node.id for node in state.ir.nodes if node is not None]
    else:
        names = [r.node for r in references if r.root in ("node", "metadata") and r.node is not None]
    nodes: dict[str, Seen] = {}
    for name in names:
        if name not in nodes and (seen := _seen_by(state, reader, name)) is not None:
            nodes[name] = seen
    return Evidence(output, output_ref, nodes, None if reader is None else loop_view(state, reader))


def loop_view(state: State, reader: Activation) -> LoopView | None:
    view: LoopView | None = None
    if reader.scope:
        loops = state.node_in(state.iteration_ir(reader.scope, reader.node), reader.node).loops
        for depth, iteration in enumerate(reader.scope):
            before = state.activations.get(key_of(loops[depth], (*reader.scope[:depth], iteration - 1)))
            view = LoopView(iteration, None if before is None else see(before), view)
    return view


def _sources(ir: IR, index: int) -> set[int]:
    node = ir.nodes[index] if index < len(ir.nodes) else None
    return set() if node is None else {ir.edges[number].source for number in node.edges_in}


def parents(state: State, activation: Activation) -> dict[str, Seen]:
    """The outputs of the taken edges: exactly what the node receives (E3)."""
    seen: dict[str, Seen] = {}
    if not activation.edges:
        return seen
    late = activation.late and set(activation.late)
    known = None if len(state.irs) == 1 else _sources(state.irs[activation.ir], activation.node)
    for source, status in sorted(activation.edges.items()):
        if source in late or (known is not None and source not in known):
            continue  # the token came, or a patch brought the edge, after this activation was scheduled (rule 13)
        if status in (TAKEN, ERROR):
            name = state.name(source)
            found = _seen_by(state, activation, name)
            if found is not None:
                seen[name] = found
    return seen


def find_lacking(state: State, reader: Activation) -> Activation | None:
    """An activation of the reader's past that has not ended, because a new generation does it again (rule 26)."""
    seen: list[Key] = []
    before = [reader]
    while before:
        one = before.pop()
        number = one.ir if one.fired else state.iteration_ir(one.scope, one.node)
        ir = state.irs[number]
        for index in state.node_in(number, one.node).edges_in:
            edge = ir.edges[index]
            if one.edges.get(edge.source) not in (TAKEN, ERROR):
                continue
            if edge.ports and one is reader and one.state not in ENDED:
                continue  # it reads the stream while that is made (rule 62)
            found = latest(state, edge.source, one.scope[: edge.common], number)
            if found is None or found.key in state.whole:
                continue
            if found.state is N.PENDING or found.state in OPEN:
                for key in seen:
                    state.drop(state.whole, key)
                return found
            state.put(state.whole, found.key, None)  # dropped again if the search finds one that has not ended
            seen.append(found.key)
            before.append(found)
    return None


def lacks_past(state: State, activation: Activation) -> bool:
    """Whether the activation's past is still open: a new generation does some of it again, and has not done so yet."""
    return not activation.scheduled_seq and find_lacking(state, activation) is not None


def is_unrouted(activation: Activation) -> bool:
    """Whether the activation has an outcome whose route has not been chosen."""
    ended = activation.state is N.COMPLETED or (activation.state is N.FAILED and activation.handled)
    return ended and not activation.routed and activation.item < 0


def may_wait(activation: Activation) -> bool:
    """Whether the activation goes on once its past is done again: it was held for that, or its outcome was kept."""
    return is_unrouted(activation) or (activation.state is N.HELD and activation.fired and not activation.scheduled_seq)


def items(state: State, owner: Activation, count: int) -> tuple[Seen, ...]:
    """The outcomes of the items of a map, in order."""
    node, scope, get = owner.node, owner.scope, state.activations.get
    found = (get((node, scope, item)) for item in range(count))  # `key_of`, a hundred thousand times in one go
    return tuple(_NOT_YET if one is None else Seen(one.state, one.output, one.output_ref, one.error) for one in found)


_NOT_YET = Seen(N.PENDING)
