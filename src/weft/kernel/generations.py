"""What a new generation reopens (rule 26). Changes state; called by `evolve.py` for `run.retried`.

Completed activations keep their outcomes. What failed, was compensated, or was cut off by the end of the run is
made ready again; whatever was decided only by those (a skip behind them, an edge of theirs) is undecided again.
"""

from __future__ import annotations

from weft.kernel.edges import set_state, touch, uncount
from weft.kernel.state import ERROR, FAILED, Activation, Key, NodeState, State, key_of

N = NodeState

_DECIDED_BY_OTHERS = frozenset({N.PENDING, N.SKIPPED, N.UPSTREAM_FAILED})


def in_order(state: State) -> list[Activation]:
    """Activations in an order that does not depend on how the state came to be."""
    return sorted(state.activations.values(), key=lambda a: (a.scheduled_seq, a.node, a.scope, a.item))


def reopen(state: State) -> None:
    again = _to_run_again(state)
    for activation in again.values():
        state.edit(activation)
        _make_ready(state, activation)
    for activation in list(again.values()):
        if activation.item < 0:
            _forget_edges(state, activation, again)
    state.tokens = 0
    for activation in state.activations.values():
        if activation.state is N.PENDING and not activation.fired:
            state.tokens += activation.tokens
        elif activation.state is N.CANCELLED and activation.resume is N.PARKED:
            state.edit(activation)
            activation.resume = None
            set_state(state, activation, N.PARKED, generation=True)


def _to_run_again(state: State) -> dict[Key, Activation]:
    again: dict[Key, Activation] = {}
    blamed: list[Activation] = []
    for activation in in_order(state):
        if activation.item >= 0 and state.activations[key_of(activation.node, activation.scope)].state is N.COMPLETED:
            continue  # a failure its map tolerated
        if activation.state is N.UPSTREAM_FAILED and not activation.handled:
            blamed.append(activation)
        elif (activation.state is N.FAILED and not activation.handled) or (
            activation.state is N.COMPENSATED
            or (activation.state is N.CANCELLED and activation.resume not in (None, N.PARKED))
        ):
            again[activation.key] = activation
    while blamed:  # a join that could not fire: those whose failure it was run again, or it never could
        join = blamed.pop()
        for source, status in sorted(join.edges.items()):
            if status not in (FAILED, ERROR):
                continue
            loops = state.node_in(join.ir, source).loops
            failed = state.activations.get(key_of(source, join.scope[: len(loops)]))
            if failed is None or failed.key in again:
                continue
            if failed.state is N.UPSTREAM_FAILED:
                blamed.append(failed)
            elif failed.state is N.FAILED:
                again[failed.key] = failed
    return again


def _make_ready(state: State, activation: Activation) -> None:
    set_state(state, activation, N.PENDING, generation=True)
    activation.failures = activation.crashes = 0
    activation.error, activation.resume, activation.handled = None, None, False
    activation.routed, activation.route, activation.undo = False, None, None
    activation.reason, activation.begun, activation.wait = "", False, None
    activation.ended_at, activation.ended_seq, activation.retry_at = None, 0, None


def _forget_edges(state: State, source: Activation, again: dict[Key, Activation]) -> None:
    """What this activation decided for others is undecided again, unless they kept an outcome of their own."""
    ir = state.iteration_ir(source.scope, source.node)
    node = state.node_in(ir, source.node)
    for number in node.edges_out:
        edge = state.irs[ir].edges[number]
        prefix = source.scope[: edge.common]
        state.drop(state.entered, (edge.source, edge.target, prefix))
        target = _target(state, ir, edge.target, prefix)
        if target is None or edge.source not in target.edges:
            continue
        if target.key not in again and target.state not in _DECIDED_BY_OTHERS:
            continue
        state.edit(target)
        uncount(state, target, edge.source)
        target.refused = False
        if target.state in (N.SKIPPED, N.UPSTREAM_FAILED):
            _make_ready(state, target)
            again[target.key] = target
            target.fired = False
            _forget_edges(state, target, again)
        target.fired = False
        target.tokens = target.taken + target.errors
        touch(state, target.key)


def _target(state: State, ir: int, node: int, prefix: tuple[int, ...]) -> Activation | None:
    scope = prefix
    loops = state.node_in(ir, node).loops
    for depth in range(len(prefix), len(loops)):
        run = state.loops.get((loops[depth], scope))
        if run is None:
            return None
        scope = (*scope, run.iteration)
    return state.activations.get(key_of(node, scope))
