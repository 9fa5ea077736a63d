"""Live patches: what a new IR does to a run under way (rule 39), and which patches are refused (E6).

`check` is asked before the patch is recorded; `install` is what `run.patched` does to the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure.kernel.edges import latest, resolve, touch, touch_entries, uncount
from perdure.kernel.generations import in_order
from perdure.kernel.state import (
    ENDED,
    ERROR,
    FAILED,
    OPEN,
    SKIPPED,
    TAKEN,
    Activation,
    IntegrityError,
    NodeState,
    State,
    index_of,
    key_of,
)
from perdure.model.ir import IR, Edge, Node
from perdure.model.rebase import rebase

N = NodeState


def install(state: State, ir_hash: str, *, mends: bool = False) -> None:
    """`mends`: a retry has just made ready what runs again, and that takes the new definition too."""
    if ir_hash not in state.library:
        raise IntegrityError(f"run {state.run_id}: its patched IR {ir_hash} is not at hand")
    old = state.ir
    new = rebase(state.library[ir_hash], *state.irs)
    state.irs = [*state.irs, new]
    state.ir_hashes = [*state.ir_hashes, ir_hash]
    before = {(edge.source, edge.target) for edge in old.edges if edge.kind != "back"}
    for edge in new.edges:
        if edge.kind != "back" and (edge.source, edge.target) not in before:
            _resolve_new(state, edge)
    after = {(edge.source, edge.target) for edge in new.edges}
    for activation in in_order(state):
        if mends and runs_again(activation):
            state.edit(activation).ir = len(state.irs) - 1
            continue
        if activation.state is not N.PENDING or activation.scope or activation.fired:
            continue
        state.edit(activation)
        activation.ir = len(state.irs) - 1
        if new.nodes[activation.node] is None:  # it holds no token (`check`), so nobody misses it
            state.drop(state.activations, activation.key)
            state.tally[N.PENDING] -= 1
            if state.touched is not None:  # a retry in the same decision may have made it undecided again
                state.touched[:] = [key for key in state.touched if key != activation.key]
            continue
        for source in sorted(activation.edges):
            if (source, activation.node) not in after:
                uncount(state, activation, source)
        touch(state, activation.key)
    touch_entries(state)


def runs_again(activation: Activation) -> bool:
    """A retry made it ready: its join has fired, and what it was given stays. Items follow their map."""
    return activation.state is N.PENDING and activation.fired and activation.item < 0


def _resolve_new(state: State, edge: Edge) -> None:
    """A new edge from a node that has ended resolves now. Inside a loop it waits for the next iteration."""
    ir = len(state.irs) - 1
    loops = state.node_in(ir, edge.source).loops
    source = latest(state, edge.source, (), ir)
    if loops:
        run = state.loops.get((loops[0], ()))
        if edge.common or run is None or run.status not in ("draining", "ended"):
            return
        if run.status == "draining" and (source is None or source.state not in ENDED):
            raise IntegrityError(f"run {state.run_id}: a patch leaves an iteration that drains")  # `check` refuses it
        if source is None:
            source = Activation(node=edge.source, scope=(run.iteration,), state=N.SKIPPED, ir=ir)
    elif source is None or source.state not in ENDED or not source.routed:
        return
    named = edge.named or went_aside(state, ir, source)
    if source.state in (N.COMPLETED, N.COMPENSATED):
        status = SKIPPED if named else TAKEN
    elif source.state in (N.FAILED, N.UPSTREAM_FAILED) and source.handled:
        status = FAILED if source.route is None else SKIPPED if named else ERROR
    else:
        status = SKIPPED
    resolve(state, edge, ir, source, status)


def is_new(state: State, edge: Edge, before: int) -> bool:
    """An earlier IR of the run does not have this edge."""
    nodes, edges = state.irs[before].nodes, state.irs[before].edges
    source = nodes[edge.source] if edge.source < len(nodes) else None
    return source is None or all(edges[number].target != edge.target for number in source.edges_out)


def went_aside(state: State, ir: int, source: Activation) -> bool:
    """It took a path of its own, and so not the edges that no routing names (rules 6 and 16)."""
    if source.route is None:
        return False
    if source.route.rule == "loop.timeout":
        loop = state.node_in(ir, source.node).loop
        return loop is not None and bool(loop.timeout_path) and loop.break_path is None
    return source.route.rule in ("rejection_path", "on_failure.path")


# -- what may be patched -----------------------------------------------------------------------------------------------


def check(state: State, ir: IR) -> list[str]:
    """Why this patch must be refused, a sentence for each reason; none when every part of E6 holds."""
    old, new = state.ir, rebase(ir, *state.irs)
    problems = [] if new.name == old.name else [f"the run is of workflow {old.name!r}, the patch of {new.name!r}"]
    problems += [*_places(state, old, new), *_moves(state, old, new), *_entries(state, new), *_exits(state, old, new)]
    problems += _approvals(state, old, new)
    return list(dict.fromkeys(problems))


def check_mend(state: State, ir: IR) -> list[str]:
    """The same for a definition that comes with a retry, asked when that has made ready what runs again."""
    old, new = state.ir, rebase(ir, *state.irs)
    return list(dict.fromkeys([*check(state, ir), *_again(state, old, new)]))


def _again(state: State, old: IR, new: IR) -> Iterator[str]:
    """What runs again has been given its inputs, and a map its items: neither can become another."""
    for activation in in_order(state):
        before = old.nodes[activation.node]
        after = new.nodes[activation.node]
        if not runs_again(activation) or before is None:
            continue
        name = before.id
        if after is None:
            yield f"node {name!r} has been activated and cannot be removed"
            continue
        for source in sorted(_sources(new, after) - _sources(old, before)):
            given = new.nodes[source]
            edge = f"{given.id if given is not None else source} -> {name}"
            yield f"the edge {edge} comes too late, {name!r} has what it was given; rerun from a node before it instead"
        begun = key_of(activation.node, activation.scope, 0) in state.activations
        if begun and _whole(before.config) != _whole(after.config):
            yield f"the map {name!r} has begun with its items; only what each item does can change"


def _sources(ir: IR, node: Node) -> set[int]:
    return {ir.edges[number].source for number in node.edges_in}


def _whole(config: Any) -> Any:
    """What a map is, without what each of its items does."""
    return {key: value for key, value in (config or {}).items() if key not in ("node", "inputs", "max_concurrency")}


def _places(state: State, old: IR, new: IR) -> Iterator[str]:
    """What has begun keeps its place: activated nodes, their loops, and edges that hold a token stay."""
    edges = {(edge.source, edge.target) for edge in new.edges}
    for activation in in_order(state):
        before = old.nodes[activation.node]
        after = new.nodes[activation.node] if activation.node < len(new.nodes) else None
        if before is None:
            continue
        if activation.state is not N.PENDING or activation.tokens:
            if after is None:
                yield f"node {before.id!r} has been activated and cannot be removed"
            elif after.loops != before.loops or (after.loop is None) != (before.loop is None):
                yield f"node {before.id!r} has been activated and cannot move into or out of a loop"
        if activation.state is N.PENDING and not activation.scope and after is not None:
            for source, status in sorted(activation.edges.items()):
                if status in (TAKEN, ERROR) and (source, activation.node) not in edges:
                    yield f"the edge {state.name(source)} -> {before.id} holds a token and cannot be removed"


def _moves(state: State, old: IR, new: IR) -> Iterator[str]:
    """An iteration under way lives by the definition it began with."""
    for index, before in enumerate(old.nodes):
        after = new.nodes[index]
        if before is None or after is None or before.loops == after.loops:
            continue
        for loop in dict.fromkeys((*before.loops[:1], *after.loops[:1])):
            run = state.loops.get((loop, ()))
            if run is not None and run.status != "ended":
                yield f"node {before.id!r} cannot move into or out of the loop {state.name(loop)!r} while that runs"


def _entries(state: State, new: IR) -> Iterator[str]:
    """An iteration under way waits for what led into it when it began: an edge that has not resolved must stay."""
    kept = {(edge.source, edge.target) for edge in new.edges}
    for (loop, scope), run in sorted(state.loops.items()):
        if scope or run.status == "ended":
            continue
        ir = state.irs[run.ir]
        for edge in ir.edges:
            inside = edge.kind != "back" and state.node_in(run.ir, edge.target).loops[:1] == (loop,)
            if not inside or edge.common or (edge.source, edge.target) in kept:
                continue
            target = latest(state, edge.target, (), run.ir)
            done = target is not None and (target.fired or target.state is not N.PENDING)
            if not done and (edge.source, edge.target, ()) not in state.entered:
                names = f"{state.name(edge.source)} -> {state.name(edge.target)}"
                yield f"an iteration of the loop {state.name(loop)!r} waits for the edge {names}; remove it afterwards"


def _exits(state: State, old: IR, new: IR) -> Iterator[str]:
    """The last iteration of a loop ends by the definition it began with: what it has not done yet has no new way out."""
    known = {(edge.source, edge.target) for edge in old.edges}
    for edge in new.edges:
        node = new.nodes[edge.source]
        if edge.common or node is None or not node.loops or (edge.source, edge.target) in known:
            continue
        run = state.loops.get((node.loops[0], ()))
        if run is not None and run.status == "draining":
            source = state.activations.get(key_of(edge.source, (run.iteration,)))
            if len(node.loops) > 1 or source is None or source.state not in ENDED:
                yield f"the loop {state.name(run.loop)!r} is ending and {node.id!r} in it is not done; patch it then"


def _approvals(state: State, old: IR, new: IR) -> Iterator[str]:
    """Approvals that could not be avoided still cannot, and what they guarded is still guarded."""
    people = [i for i, node in enumerate(old.nodes) if node is not None and node.type == "human"]
    if not people:
        return
    bit = {node: 1 << n for n, node in enumerate(people)}
    decided = 0
    for node in people:
        activation = state.activations.get(key_of(node, ()))
        if activation is not None and activation.state in ENDED:
            decided |= bit[node]
    forced_before, guards_before = _guards(state, old, bit)
    forced_after, guards_after = _guards(state, new, bit)
    for node in people:
        if not decided & bit[node] and forced_before & bit[node] and not forced_after & bit[node]:
            yield f"the approval {state.name(node)!r} was unavoidable and would no longer be"
    names = index_of(new)
    for index, guards in enumerate(guards_before):
        node_before = old.nodes[index]
        if node_before is None or node_before.id not in names:
            continue
        lost = guards & ~guards_after[index] & ~decided
        if lost and not _begun(state, index):
            person = next(person for person in people if bit[person] & lost)
            yield f"{node_before.id!r} runs only after the approval {state.name(person)!r}; it would run without it"


def _begun(state: State, node: int) -> bool:
    activation = state.activations.get(key_of(node, ()))
    return activation is not None and (activation.state in OPEN or activation.state in ENDED)


def _guards(state: State, ir: IR, bit: dict[int, int]) -> tuple[int, list[int]]:
    """Which approvals are certain to be asked, and for each node those that must come before it.

    One pass in topological order. A node may be skipped when its join can resolve without enough tokens; approvals
    before a node are all those of edges that cannot be skipped, and those common to the edges that can.
    """
    size = len(ir.nodes)
    skippable, guards = [False] * size, [0] * size
    forced = 0
    for index in topological(ir):
        node = ir.nodes[index]
        if node is None:
            continue
        sure, maybe, certain = 0, -1, 0
        refusable = False
        for number in node.edges_in:
            edge = ir.edges[number]
            passed = guards[edge.source] | bit.get(edge.source, 0)
            if skippable[edge.source] or edge.named:
                maybe &= passed
                refusable = refusable or edge.required
            else:
                sure |= passed
                certain += 1
        activation = state.activations.get(key_of(index, ()))
        needed = node.join.at_least
        if needed is None:
            skippable[index] = bool(node.edges_in) and not certain
            guards[index] = sure | (maybe if not certain and maybe != -1 else 0)
        else:
            skippable[index] = bool(node.edges_in) and certain < needed
            each = [guards[ir.edges[i].source] | bit.get(ir.edges[i].source, 0) for i in node.edges_in]
            guards[index] = _common(each) if needed < len(each) else sure | (maybe if maybe != -1 else 0)
        skippable[index] = skippable[index] or refusable or node.when is not None
        if activation is not None and activation.fired:
            skippable[index] = activation.state is N.SKIPPED
        if index in bit and not skippable[index]:
            forced |= bit[index]
    return forced, guards


def _common(masks: list[int]) -> int:
    common = -1
    for mask in masks:
        common &= mask
    return 0 if common == -1 else common


def topological(ir: IR) -> list[int]:
    waiting = [0 if node is None else len(node.edges_in) for node in ir.nodes]
    ready = [i for i, node in enumerate(ir.nodes) if node is not None and not node.edges_in]
    for index in ready:
        node = ir.nodes[index]
        if node is None:
            continue
        for number in node.edges_out:
            target = ir.edges[number].target
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return ready
