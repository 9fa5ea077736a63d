"""What a new generation reopens (rule 26), and what it may. `reopen` changes state; `evolve.py` calls it for `run.retried`.

Completed activations keep their outcomes. What failed, was compensated, or was cut off by the end of the run is
made ready again; whatever was decided only by those (a skip behind them, an edge of theirs) is undecided again.
"""

from __future__ import annotations

from perdure.kernel.causal_past import find_lacking, is_unrouted
from perdure.kernel.edges import (
    in_closed_iteration,
    is_latest,
    is_unlet,
    latest,
    set_state,
    speaks_outside,
    touch,
    uncount,
    unfix,
)
from perdure.kernel.events import Scope
from perdure.kernel.lifecycle import ENDED, ERROR, FAILED, OPEN, SKIPPED, TAKEN, N
from perdure.kernel.state import Activation, Key, LoopRun, State, key_of
from perdure.kernel.values import Undo
from perdure.model.ir import Edge, Node

_DECIDED_BY_OTHERS = frozenset({N.PENDING, N.SKIPPED, N.UPSTREAM_FAILED})


def in_order(state: State) -> list[Activation]:
    """Activations in an order that does not depend on how the state came to be."""
    return sorted(state.activations.values(), key=lambda a: (a.scheduled_seq, a.node, a.scope, a.item))


def reopen(state: State) -> None:
    again, reopened = _to_run_again(state)
    for activation in again.values():
        state.edit(activation)
        if is_unlet(state, activation):  # it was never to run: its join is decided anew
            activation.fired = False
            touch(state, activation.key)
        make_ready(state, activation)
        if not activation.fired:
            activation.tokens = activation.taken + activation.errors
    for activation in list(again.values()):
        if activation.item < 0:
            _forget_edges(state, activation, again)
    for run in reopened:
        _forget_exits(state, run, again)
    while (unskipped := _find_unskipped(state, again)) is not None:
        state.edit(unskipped)
        unskipped.status, unskipped.ended_seq = "open", 0
        _forget_exits(state, unskipped, again)
    for run in state.loops.values():
        if run.status == "closing" and run.cause in again:  # the way of its cause is undecided again
            state.edit(run)
            run.status, run.cause = "open", None
    state.tokens = 0
    for activation in state.activations.values():
        if activation.state is N.PENDING and not activation.fired:
            state.tokens += activation.tokens
        elif activation.state is N.CANCELLED and activation.resume is N.PARKED:
            state.edit(activation)
            activation.resume = None
            set_state(state, activation, N.PARKED, generation=True)
    for key in list(state.whole):
        state.drop(state.whole, key)
    state.behind, state.loose = {}, {}
    for activation in list(state.activations.values()):
        unrouted = is_unrouted(activation)
        if unrouted:
            state.put(state.loose, activation.key, None)
        ready = unrouted or activation.state is N.PENDING or activation.state is N.PARKED
        if ready and activation.fired and activation.item < 0 and find_lacking(state, activation) is not None:
            unfix(state.edit(activation))  # its past will be made anew, and it must see the new one


def _to_run_again(state: State) -> tuple[dict[Key, Activation], list[LoopRun]]:
    again: dict[Key, Activation] = {}
    reopened: list[LoopRun] = []
    blamed: list[Activation] = []
    refused = _find_refused(state)
    for activation in in_order(state):
        if activation.item >= 0:
            owner = state.activations[key_of(activation.node, activation.scope)]
            if owner.state is N.COMPLETED:
                if activation.state is not N.COMPENSATED:
                    continue  # a failure that its map tolerated
                again[owner.key] = owner  # a map is done when its items are, and this one is to be done again
        if activation.state is N.UPSTREAM_FAILED and not activation.handled:
            blamed.append(activation)
        elif (activation.state is N.FAILED and not activation.handled) or (
            activation is refused
            or activation.state is N.COMPENSATED
            or (activation.state is N.CANCELLED and activation.resume not in (None, N.PARKED))
        ):
            again[activation.key] = activation
            if activation.state is N.FAILED and is_unlet(state, activation):
                blamed.append(activation)
    while blamed:  # a join that could not fire: the failed nodes before it run again, or it never could
        join = blamed.pop()
        for number in state.node_in(join.ir, join.node).edges_in:
            edge = state.irs[join.ir].edges[number]
            if join.edges.get(edge.source) not in (FAILED, ERROR):
                continue
            failed = latest(state, edge.source, join.scope[: edge.common], join.ir)
            if failed is None or failed.key in again:
                continue
            _reopen_loop(state, failed, again, reopened)
            if failed.state is N.UPSTREAM_FAILED:
                blamed.append(failed)
            elif failed.state is N.FAILED:
                again[failed.key] = failed
                if is_unlet(state, failed):
                    blamed.append(failed)
    return again, reopened


def _find_refused(state: State) -> Activation | None:
    """The approval by whose no the run failed, where it was a yes before: the next generation asks again, also where the graph
    has a way for the no (`withdrawn.py`)."""
    error = state.error
    found = state.find(error.node, error.scope) if error is not None and error.code == "rejected" else None
    said_no = found is not None and (found.state is N.FAILED or (found.state is N.COMPLETED and found.rejected))
    return found if said_no else None


def may_run_again(state: State) -> set[int]:
    """The nodes that have an outcome and a route, and may get others in the next generation (rule 26): what is
    compensated, a map with its items, a failure that was handled, where a join could not fire for it, and an approval that was
    a yes before it was undone."""
    done = (state.activations[key] for key in state.undoable)
    found = {activation.node for activation in done if not activation.scope and activation.state is N.COMPLETED}
    failed = (a for a in state.activations.values() if (a.state is N.FAILED and a.handled) or (a.rejected and a.undone))
    return found | {activation.node for activation in failed if not activation.scope and activation.item < 0}


def decided_anew(state: State, again: set[int]) -> set[int]:
    """The nodes whose join is decided anew where these run again: what has begun and is not kept, and what was skipped."""
    behind: dict[int, list[Activation]] = {}
    for activation in state.activations.values() if again else ():
        kept = activation.state is N.COMPLETED and activation.node not in again
        if not activation.scope and activation.item < 0 and not kept:
            for source in activation.edges:
                behind.setdefault(source, []).append(activation)
    found, waiting = set[int](), list(again)
    while waiting:
        for activation in behind.get(waiting.pop(), ()):
            if activation.node not in found:
                found.add(activation.node)
                waiting.append(activation.node)
    return found


def kept_waiting(state: State) -> dict[int, Activation]:
    """The nodes that were done or reached before, and go on only when something before them has been done again
    (rule 26); in a loop, as its last iteration has them."""
    behind: dict[int, list[Activation]] = {}
    waiting: list[int] = []
    for activation in state.activations.values() if state.generation > 1 else ():
        if activation.state is N.PENDING or activation.state in OPEN:
            waiting.append(activation.node)
        if activation.item < 0 and is_latest(state, activation):
            for source in waits_for(state, activation):
                behind.setdefault(source, []).append(activation)
    found = dict[int, Activation]()
    while waiting:
        for activation in behind.pop(waiting.pop(), ()):
            found[activation.node] = activation
            waiting.append(activation.node)
    return found


def waits_for(state: State, activation: Activation) -> list[int]:
    """The nodes that an activation which was done or reached before builds upon; in a loop, also those that its join is
    decided anew by, though its iteration stays."""
    if activation.fired:
        if activation.state not in ENDED and activation.scheduled_seq:
            return []
        return [source for source, status in activation.edges.items() if status in (TAKEN, ERROR)]
    if not activation.scope or activation.state is not N.PENDING:
        return []
    ir = state.irs[state.iteration_ir(activation.scope, activation.node)]
    sources = [ir.edges[number].source for number in state.governing(activation).edges_in]
    return [source for source in sources if activation.edges.get(source, TAKEN) in (TAKEN, ERROR)]


def _reopen_loop(state: State, failed: Activation, again: dict[Key, Activation], reopened: list[LoopRun]) -> None:
    """Reopen a loop that its looping node ended by failing: the node runs again, with what its failure cut off."""
    run = state.loops.get((failed.node, failed.scope[:-1]))
    if run is None or run.status != "ended" or failed.route is not None or run.iteration != failed.scope[-1]:
        return
    if failed.ended_seq > run.ended_seq:
        return  # it had left the loop, and failed when it was done again: how a loop was left is not decided anew
    state.edit(run)
    depth = len(failed.scope)
    inside = [a for a in state.activations.values() if a.scope[:depth] == failed.scope]
    inside = [a for a in inside if run.loop in state.node_in(a.ir, a.node).loops]
    reopened.append(run)
    inside.sort(key=lambda a: (a.node, a.scope, a.item))
    run.status, run.ended_seq, run.members = "open", 0, [a.key for a in inside]
    for member in inside:
        if member.state is N.CANCELLED and (member.reason == "loop" or not member.fired):
            again[member.key] = member
        elif member.state is N.COMPLETED and member.route is None and member.item < 0:
            state.edit(member).routed = False  # kept while the iteration closed; now it goes on


def _find_unskipped(state: State, again: dict[Key, Activation]) -> LoopRun | None:
    """A loop that ended because its looping node was skipped (rule 18), where that is undecided again."""
    for run in state.loops.values():
        if run.status == "draining" and key_of(run.loop, (*run.scope, run.iteration)) in again:
            return run
    return None


def make_ready(state: State, activation: Activation) -> None:
    set_state(state, activation, N.PENDING, generation=True)
    activation.failures = activation.crashes = 0
    activation.error, activation.resume, activation.handled = None, None, False
    activation.routed, activation.route = False, None
    activation.rejected = activation.accepted = False
    activation.lost = ()
    if activation.undo is not None:
        activation.undo = Undo(attempt=activation.undo.attempt, state="done")
        activation.checkpoint, activation.kept, activation.begun_steps = (
            None,
            0,
            None,
        )  # the steps of the activation were undone with it
    activation.reason, activation.begun, activation.wait = "", False, None
    activation.ended_at, activation.ended_seq, activation.retry_at = None, 0, None


def _forget_edges(state: State, source: Activation, again: dict[Key, Activation]) -> None:
    """Make what this activation decided for others undecided again, unless they kept an outcome of their own."""
    ir = state.iteration_ir(source.scope, source.node)
    closed = in_closed_iteration(state, source)
    node = state.node_in(ir, source.node)
    for number in node.edges_out:
        edge = state.irs[ir].edges[number]
        if closed and not speaks_outside(state, node.loops, source.scope, edge.common):
            continue
        _forget(state, ir, edge, source.scope[: edge.common], again, closed=closed)


def _forget_exits(state: State, run: LoopRun, again: dict[Key, Activation]) -> None:
    """Make what the end of a loop decided undecided again, for every body node: a loop that goes on leaves anew."""
    ir = len(state.irs) - 1 if not run.scope else run.ir
    loop = state.node_in(ir, run.loop).loop
    for number in loop.exits if loop is not None else ():
        edge = state.irs[ir].edges[number]
        _forget(state, ir, edge, run.scope[: edge.common], again, closed=False)


def _last_scope(state: State, node: Node, prefix: Scope) -> Scope | None:
    """The scope where tokens from `prefix` last arrived; None if a loop on the way is over. A closing one may reopen."""
    scope = prefix
    for loop in node.loops[len(prefix) :]:
        run = state.loops.get((loop, scope))
        if run is None or run.status == "ended":
            return None
        scope = (*scope, run.iteration)
    return scope


def _forget(state: State, ir: int, edge: Edge, prefix: Scope, again: dict[Key, Activation], *, closed: bool) -> None:
    scope = _last_scope(state, state.node_in(ir, edge.target), prefix)
    target = None if scope is None else state.activations.get(key_of(edge.target, scope))
    if target is None or edge.source not in target.edges:
        return
    if target.key not in again and target.state not in _DECIDED_BY_OTHERS:
        return
    if closed and (target.state is N.SKIPPED or target.edges[edge.source] == SKIPPED):
        return  # how a loop was left is not decided anew
    state.drop(state.entered, (edge.source, edge.target, prefix))
    state.edit(target)
    governing = state.iteration_ir(target.scope, target.node)
    target.ir = max(target.ir, governing)  # what was mended stays so
    now = {state.irs[governing].edges[n].source for n in state.node_in(governing, target.node).edges_in}
    for source in sorted(target.edges):
        if source == edge.source or source not in now:  # an edge that a patch removed no longer decides anything
            uncount(state, target, source)
    if target.state in (N.SKIPPED, N.UPSTREAM_FAILED):
        make_ready(state, target)
        again[target.key] = target
        target.fired = False
        _forget_edges(state, target, again)
    target.fired, target.late = False, ()
    target.tokens = target.taken + target.errors
    touch(state, target.key)
