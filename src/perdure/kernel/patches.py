"""Live patches: what a new IR does to a run under way (rule 39), and which patches are refused (E6).

`check` is asked before the patch is recorded; `install` is what `run.patched` does to the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure.kernel import guards
from perdure.kernel.edges import is_refused, latest, loosen, resolve, touch, touch_entries, uncount, went_aside
from perdure.kernel.generations import in_order, may_run_again
from perdure.kernel.lifecycle import ENDED, ERROR, FAILED, SKIPPED, TAKEN, IntegrityError, N
from perdure.kernel.state import Activation, State, key_of
from perdure.kernel.steps import asked_people
from perdure.model.ir import IR, Edge, Node
from perdure.model.rebase import rebase


def install(state: State, ir_hash: str, *, mends: bool = False) -> None:
    """Give the run a new definition. `mends`: it came with a retry, so what runs again takes the new one too."""
    if ir_hash not in state.library:
        raise IntegrityError(f"run {state.run_id}: its patched IR {ir_hash} is not at hand")
    old = state.ir
    new = rebase(state.library[ir_hash], *state.irs)
    state.irs = [*state.irs, new]
    state.ir_hashes = [*state.ir_hashes, ir_hash]
    _leave_places(state, old, new)
    before = {(edge.source, edge.target) for edge in old.edges if edge.kind != "back"}
    for edge in new.edges:
        if edge.kind == "back":
            continue
        if (edge.source, edge.target) not in before:
            _resolve_new(state, edge)
        elif _has_moved(old, new, edge.source) or _has_moved(old, new, edge.target):
            _forget_moved(state, edge)
            _resolve_new(state, edge)
    after = {(edge.source, edge.target) for edge in new.edges}
    for activation in in_order(state):
        if mends and (runs_again(activation) or _is_done_anew(activation)):
            if new.nodes[activation.node] is not None:  # removed before, it runs by what its iteration had
                state.edit(activation).ir = len(state.irs) - 1
            continue
        if activation.state is not N.PENDING or activation.scope or activation.fired:
            continue
        state.edit(activation)
        activation.ir = len(state.irs) - 1
        for source in sorted(activation.edges):
            if (source, activation.node) not in after:
                uncount(state, activation, source)
        activation.refused = is_refused(state, activation)  # the new definition says what it requires
        touch(state, activation.key)
    touch_entries(state)


def _has_moved(old: IR, new: IR, index: int) -> bool:
    """Whether the patch moves a node into a loop or out of one: its edges then resolve elsewhere, and at other times."""
    before, after = old.nodes[index] if index < len(old.nodes) else None, new.nodes[index]
    return before is not None and after is not None and before.loops != after.loops


def _leave_places(state: State, old: IR, new: IR) -> None:
    """Drop pending activations of nodes that the patch removes or moves: they hold no token (`check`), so nothing misses them."""
    for activation in in_order(state):
        if activation.state is not N.PENDING or activation.scope or activation.fired or activation.item >= 0:
            continue
        if new.nodes[activation.node] is not None and not _has_moved(old, new, activation.node):
            continue
        state.drop(state.activations, activation.key)
        state.tally[N.PENDING] -= 1
        loosen(state, activation.key)
        if state.touched is not None:  # a retry in the same decision may have made it undecided again
            state.touched[:] = [key for key in state.touched if key != activation.key]


def _forget_moved(state: State, edge: Edge) -> None:
    """Undecide an edge of a node that moves. Its source may have been skipped in a loop that was over, and may run now: a join
    that has not fired waits for it."""
    state.drop(state.entered, (edge.source, edge.target, ()))
    target = state.activations.get(key_of(edge.target, ()))
    if target is not None and target.state is N.PENDING and not target.fired and edge.source in target.edges:
        uncount(state, state.edit(target), edge.source)


def runs_again(activation: Activation) -> bool:
    """Whether a retry made the activation ready: its join has fired, and its inputs stay. Items follow their map."""
    return activation.state is N.PENDING and activation.fired and activation.item < 0


def _is_done_anew(activation: Activation) -> bool:
    """Whether the activation ran in an iteration, and a retry does it again when its join, as that iteration has it, fires."""
    ran = activation.attempt > 0 and activation.state is N.PENDING and activation.item < 0
    return ran and bool(activation.scope) and not activation.fired


def _resolve_new(state: State, edge: Edge) -> None:
    """Resolve a new edge from a node that has ended. Inside a loop the edge waits for the next iteration."""
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


# -- what may be patched -----------------------------------------------------------------------------------------------


def check(state: State, ir: IR) -> list[str]:
    """The reasons why this patch must be refused, a sentence for each; none when every part of E6 holds."""
    old, new = state.ir, rebase(ir, *state.irs)
    problems = [] if new.name == old.name else [f"the run is of workflow {old.name!r}, the patch of {new.name!r}"]
    problems += [*_places(state, old, new), *_moves(state, old, new), *_entries(state, new), *_exits(state, old, new)]
    problems += _streams(old, new)
    problems += [*guards.check(state, old, new), *asked_people.check(state, old, new, may_run_again(state))]
    return list(dict.fromkeys(problems))


def _streams(old: IR, new: IR) -> list[str]:
    """The reasons against other streams: who reads what is decided when a run begins (rule 71)."""
    if not old.streams and not new.streams:
        return []
    ways = [{(edge.source, edge.target, edge.ports) for edge in ir.edges if edge.ports} for ir in (old, new)]
    specs = [
        {node.id: node.stream for node in ir.nodes if node is not None and node.stream is not None} for ir in (old, new)
    ]
    if ways[0] == ways[1] and specs[0] == specs[1]:
        return []
    return ["streams between nodes stay as they were when the run began; rerun instead"]


def check_mend(state: State, ir: IR) -> list[str]:
    """The reasons against a definition that comes with a retry, asked once the retry has made ready what runs again."""
    old, new = state.ir, rebase(ir, *state.irs)
    return list(dict.fromkeys([*check(state, ir), *_again(state, old, new)]))


def _again(state: State, old: IR, new: IR) -> Iterator[str]:
    """The reasons against changing activations that run again: their inputs, and a map's items, have been given."""
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
    """The config of a map without what each of its items does."""
    return {key: value for key, value in (config or {}).items() if key not in ("node", "inputs", "max_concurrency")}


def _last(state: State, index: int) -> Node | None:
    """The node as the run last had it: an iteration under way may go on with one that a patch removed."""
    found = (ir.nodes[index] for ir in reversed(state.irs) if index < len(ir.nodes))
    return next((node for node in found if node is not None), None)


def _places(state: State, old: IR, new: IR) -> Iterator[str]:
    """The reasons against moving what has begun: activated nodes, their loops, and edges that hold a token stay."""
    edges = {(edge.source, edge.target) for edge in new.edges}
    for activation in in_order(state):
        before = _last(state, activation.node)
        after = new.nodes[activation.node] if activation.node < len(new.nodes) else None
        if before is None or (after is None and old.nodes[activation.node] is None):
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
    """The reasons against moving nodes of an iteration under way, which keeps the definition it began with."""
    for index in range(len(old.nodes)):
        before, after = _last(state, index), new.nodes[index]
        if before is None or after is None or before.loops == after.loops:
            continue
        for loop in dict.fromkeys((*before.loops[:1], *after.loops[:1])):
            run = state.loops.get((loop, ()))
            if run is not None and run.status != "ended":
                yield f"node {before.id!r} cannot move into or out of the loop {state.name(loop)!r} while that runs"


def _entries(state: State, new: IR) -> Iterator[str]:
    """The reasons against removing an unresolved edge into a loop: an iteration under way still waits for it."""
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
    """The reasons against new exits of a loop whose last iteration is ending by the definition it began with."""
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
