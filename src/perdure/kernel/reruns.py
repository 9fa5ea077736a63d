"""Rerun from a node: which outcomes of a run a new one begins with (rule 40). Reads state, changes nothing.

The causal past of the node is kept: what completed before it, with the way it took. Everything else runs again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from perdure.kernel import patches
from perdure.kernel.commands import Adopted
from perdure.kernel.edges import is_new, latest, went_aside
from perdure.kernel.guards import topological
from perdure.kernel.lifecycle import ERROR, FAILED, TAKEN, N
from perdure.kernel.state import Activation, State
from perdure.model.ir import IR, Node
from perdure.spelling import suggest

_AS_ITS_ROUTE_SAYS = frozenset({N.COMPLETED, N.SKIPPED, N.CANCELLED, N.PENDING})
"""States in the last iteration of a loop that follow from the outcomes adopted in it."""


def mend(state: State, ir: IR) -> list[str]:
    """Give a run that is only read another definition. Returns the reasons against it, or changes the state."""
    if ir.hash == state.ir_hashes[-1]:
        return []
    problems = patches.check(state, ir)
    if not problems:
        state.library.setdefault(ir.hash, ir)
        patches.install(state, ir.hash)
    return problems


def check(state: State, node: str, overrides: Iterable[str]) -> list[str]:
    """The reasons against a rerun from this node, a sentence for each."""
    ir = state.ir
    index = ir.numbers.get(node)
    if index is None:
        names = [one.id for one in ir.nodes if one is not None]
        return [f"run {state.run_id} has no node {node!r}; {suggest(node, names)}"]
    problems = []
    found = _node(ir, index)
    if found.loops:
        outer = _node(ir, found.loops[0])
        head = outer.loop.head if outer.loop is not None else index
        if head != index:
            name = _node(ir, head).id
            problems.append(f"node {node!r} is inside the loop of {outer.id!r}; rerun from where that begins, {name!r}")
    before = {_node(ir, one).id for one in _ancestors(ir, index)}
    for name in overrides:
        if name not in before:
            known = ", ".join(sorted(before)) or "nothing"
            problems.append(f"the inputs of {node!r} are what came before it ({known}); {name!r} is not one of them")
        elif _node(ir, ir.numbers[name]).type == "human":
            problems.append(f"{name!r} is a decision of people, which nobody gives in their place; rerun from {name!r}")
    return problems or list(_limits(state, node))


def _limits(state: State, node: str) -> Iterator[str]:
    """The limits of the current definition that the kept outcomes would exceed (rule 31)."""
    ir, size = state.ir, 0
    for outcome in adopt(state, node):
        size += outcome.size
        found = _node(ir, state.index(outcome.node))
        edges, most = found.edges_out, ir.fanout_of(found)
        width = len(edges) if outcome.taken is None else len(outcome.taken)
        if width > most:
            yield f"{outcome.node!r} took {width} edges; max_fanout allows {most} now"
    if size > ir.limits.max_bytes:
        yield f"the outputs before {node!r} have {size} bytes; max_bytes allows {ir.limits.max_bytes} now"


def adopt(state: State, node: str) -> tuple[Adopted, ...]:
    """The outcomes a rerun from `node` begins with."""
    last = len(state.irs) - 1
    return tuple(_adopted(state, last, found) for found in keep(state, node))


def keep(state: State, node: str) -> list[Activation]:
    """The activations a rerun from `node` keeps, in order of completion: one that left a loop comes last in it."""
    ir, last = state.ir, len(state.irs) - 1
    wanted = _ancestors(ir, ir.numbers[node])
    for index in sorted(wanted):  # a loop is kept as a whole, or not at all
        for loop in _node(ir, index).loops[:1]:
            wanted.update(_body(ir, loop))
    bodies = [_body(ir, loop) for loop in _loops(ir) if _has_ended(state, loop, last)]
    wanted -= {member for loop in _loops(ir) for member in _body(ir, loop)} - {one for body in bodies for one in body}
    while True:
        kept: dict[int, Activation] = {}
        for index in topological(ir):
            found = latest(state, index, (), last) if index in wanted else None
            if found is not None and _is_kept(found, kept):
                kept[index] = found
        torn = [body for body in bodies if any(i in wanted and i not in kept and _gave(state, i, last) for i in body)]
        if not torn:
            return _in_order(ir, kept)
        wanted.difference_update(*torn)


def _in_order(ir: IR, kept: dict[int, Activation]) -> list[Activation]:
    """The kept activations as they completed, except that one that leaves a loop comes after the others in it, also
    after those that a retry has done again since."""
    order = {index: (found.ended_seq, 0) for index, found in kept.items()}
    loops = [node for node in ir.nodes if node is not None and node.loop is not None]
    for node in sorted(loops, key=lambda node: -len(node.loops)):  # inner ones first
        body = set(node.loop.body if node.loop is not None else ())
        last = max((order[index] for index in body & kept.keys()), default=(0, 0))
        for index in body & kept.keys():
            if node.loops[-1] == index or _leaves(ir, kept[index], body):
                order[index] = (last[0], last[1] + 1)
    return [kept[index] for index in sorted(kept, key=lambda index: (*order[index], index))]


def _leaves(ir: IR, found: Activation, body: set[int]) -> bool:
    """Whether the activation took a way out of the loop that routing names, which closes the iteration (rule 18)."""
    taken = set(found.route.taken or ()) if found.route is not None else set()
    edges = (ir.edges[number] for number in _node(ir, found.node).edges_out)
    return any(edge.named and edge.target not in body and _node(ir, edge.target).id in taken for edge in edges)


def _is_kept(found: Activation, kept: dict[int, Activation]) -> bool:
    """Whether the activation completed, and so did everything it received an output from."""
    if found.state is not N.COMPLETED or not found.routed:
        return False
    edges = found.edges.items()
    return all(status not in (ERROR, FAILED) and (status != TAKEN or source in kept) for source, status in edges)


def _gave(state: State, index: int, ir: int) -> bool:
    found = latest(state, index, (), ir)
    return found is not None and found.state is N.COMPLETED


def _has_ended(state: State, loop: int, ir: int) -> bool:
    """Whether the loop is over and all of its last iteration follows from what completed in it."""
    run = state.loops.get((loop, ()))
    if run is None or run.status != "ended":
        return False
    found = (latest(state, member, (), ir) for member in _body(state.ir, loop))
    return all(one is None or one.state in _AS_ITS_ROUTE_SAYS for one in found)


def _adopted(state: State, ir: int, found: Activation) -> Adopted:
    taken = None if found.route is None else found.route.taken
    if taken is not None and not went_aside(state, ir, found):
        edges = [state.irs[ir].edges[number] for number in state.node_in(ir, found.node).edges_out]
        new = (edge for edge in edges if not edge.named and is_new(state, edge, found.ir))
        taken = (*taken, *(name for edge in new if (name := state.name(edge.target)) not in taken))
    name = state.name(found.node)
    return Adopted(
        node=name,
        output=found.output,
        output_ref=found.output_ref,
        size=found.size,
        taken=taken,
        rejected=found.rejected,
        flow=found.flow if found.flow is not None and found.flow.state == "end" else None,
    )


# -- the graph ---------------------------------------------------------------------------------------------------------


def _node(ir: IR, index: int) -> Node:
    node = ir.nodes[index]
    if node is None:
        raise LookupError(f"node {index} was removed by a patch")
    return node


def _loops(ir: IR) -> list[int]:
    """The outermost loops, by their looping nodes."""
    return [i for i, node in enumerate(ir.nodes) if node is not None and node.loop is not None and node.loops[0] == i]


def _body(ir: IR, loop: int) -> tuple[int, ...]:
    found = _node(ir, loop).loop
    return () if found is None else found.body


def _ancestors(ir: IR, target: int) -> set[int]:
    found: set[int] = set()
    waiting = [target]
    while waiting:
        for number in _node(ir, waiting.pop()).edges_in:
            source = ir.edges[number].source
            if source not in found:
                found.add(source)
                waiting.append(source)
    return found
