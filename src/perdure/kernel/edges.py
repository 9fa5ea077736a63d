"""How edges resolve: the bookkeeping of tokens, joins and scopes. Changes state; called only as events are folded.

An edge resolves once per activation of its target's scope. Entry edges of a loop resolve once in the scope around it
and are remembered in `State.entered`, where every iteration reads them again (rule 4).
"""

from __future__ import annotations

from perdure.kernel.events import Scope
from perdure.kernel.facts.money_facts import lose
from perdure.kernel.lifecycle import (
    ENDED,
    ERROR,
    FAILED,
    NEW_GENERATION,
    NODE_TRANSITIONS,
    OPEN,
    SKIPPED,
    TAKEN,
    IntegrityError,
    N,
    NodeState,
)
from perdure.kernel.state import Activation, Key, LoopRun, State, Timer, key_of
from perdure.kernel.values import Route
from perdure.model.ir import Edge, Node

RENEWS = "loop.renew"
"""The rule of a route by which the loop goes back in a new run, as its handler wished (rule 15)."""

_PENDING = N.PENDING
_AT_WORK = (N.QUEUED, N.RUNNING)
_TOKENS = (TAKEN, ERROR)
"""How an edge resolves that brings a token."""


def set_state(state: State, activation: Activation, new: NodeState, *, generation: bool = False) -> None:
    old = activation.state
    allowed = NEW_GENERATION.get(old, frozenset()) if generation else NODE_TRANSITIONS[old]
    if new not in allowed:
        place = f"{state.name(activation.node)}{list(activation.scope)}"
        raise IntegrityError(f"run {state.run_id}: {place} cannot go from {old} to {new} (V5)")
    activation.state = new
    if activation.reserved is not None and new not in _AT_WORK:
        lose(state, activation)
    if activation.wants is not None and new is not N.HELD:
        activation.wants = None
        state.drop(state.short, activation.key)
    tally = state.tally
    tally[old] = tally.get(old, 0) - 1
    tally[new] = tally.get(new, 0) + 1
    opened = (new in OPEN) - (old in OPEN)
    state.open += opened
    if opened and activation.item >= 0:
        state.edit(state.activations[key_of(activation.node, activation.scope)]).items_open += opened
    if state.behind and new in ENDED:
        loosen(state, activation.key)


def loosen(state: State, key: Key) -> None:
    """Release what waited for an activation that has ended: it may go on, or wait for something else."""
    for waiting in state.behind.get(key, ()):
        state.put(state.loose, waiting, None)
    state.drop(state.behind, key)


def set_timer(state: State, name: str, timer: Timer) -> None:
    state.put(state.timers, name, timer)
    if state.timer_changes is not None:
        state.timer_changes[name] = timer.due_at


def clear_timer(state: State, name: str) -> None:
    if name in state.timers:
        state.drop(state.timers, name)
        if state.timer_changes is not None:
            state.timer_changes[name] = None


def timer_name(state: State, kind: str, activation: Activation) -> str:
    scope = ".".join(map(str, activation.scope))
    item = "" if activation.item < 0 else f"#{activation.item}"
    return f"{kind}:{state.name(activation.node)}:{scope}{item}"


def ask_timer(state: State, kind: str, activation: Activation, ask: str) -> str:
    """The name of a timer of one of the asks of an activation."""
    return f"{timer_name(state, kind, activation)}:{ask}"


def touch(state: State, key: Key) -> None:
    if state.touched is not None:
        state.touched.append(key)


# -- activations and loop runs -----------------------------------------------------------------------------------------


def _ensure_loop_run(state: State, loops: tuple[int, ...], scope: Scope) -> LoopRun:
    """The loop that `scope` leads to, as the definition of a node in it names the `loops` around that node, outermost first."""
    loop = loops[len(scope)]
    run = state.loops.get((loop, scope))
    if run is None:
        outer = state.loops.get((loops[0], ())) if scope else None  # a patch may have removed `loop` since that began
        run = LoopRun(loop=loop, scope=scope, ir=outer.ir if outer is not None else len(state.irs) - 1)
        state.put(state.loops, (loop, scope), run)
    return run


def ensure(state: State, node: int, scope: Scope, item: int = -1) -> Activation:
    """The activation of a node in a scope, made when it is first heard of."""
    key = key_of(node, scope, item)
    found = state.activations.get(key)
    return _make(state, key, node, scope, item) if found is None else found


def _make(state: State, key: Key, node: int, scope: Scope, item: int = -1) -> Activation:
    ir = state.iteration_ir(scope, node) if scope else len(state.irs) - 1
    activation = Activation(node=node, scope=scope, item=item, ir=ir)
    state.add(state.activations, key, activation)
    tally = state.tally
    tally[_PENDING] = tally.get(_PENDING, 0) + 1
    if scope:
        definition = state.node_in(ir, node)
        for depth in range(len(scope)):
            run = _ensure_loop_run(state, definition.loops, scope[:depth])
            if run.iteration == scope[depth]:
                state.push(run.members, key)
        if item < 0:
            _read_entries(state, activation, definition)
    return activation


def touch_entries(state: State) -> None:
    """Touch the nodes without incoming edges: they are ready from the start. In a loop that has begun, one that a patch brings
    waits for the next iteration (rule 39)."""
    for index in state.ir.entries:
        loops = state.node(index).loops
        scope = (1,) * len(loops)
        if loops and (loops[0], ()) in state.loops and key_of(index, scope) not in state.activations:
            continue
        activation = ensure(state, index, scope)
        if activation.state is N.PENDING and not activation.fired:
            touch(state, activation.key)


def _read_entries(state: State, activation: Activation, definition: Node) -> None:
    """Count what the entry edges of a new iteration resolved to before; their tokens were consumed then."""
    edges = state.irs[activation.ir].edges
    for number in definition.edges_in:
        edge = edges[number]
        if edge.common < len(activation.scope):
            known = state.entered.get((edge.source, activation.node, activation.scope[: edge.common]))
            if known is not None:
                _count(state, activation, edge, known[0], known[1])


def _count(state: State, activation: Activation, edge: Edge, status: int, hop: int) -> None:
    if state.saved.get(id(activation)):  # made by this decision, and forgotten whole
        activation.edges[edge.source] = status
    else:
        state.put(activation.edges, edge.source, status)
    if status == TAKEN:
        activation.taken += 1
    elif status == SKIPPED:
        activation.skipped += 1
        activation.refused = activation.refused or (edge.required and not _has_lost(state, activation, edge))
    elif status == FAILED:
        activation.failed += 1
    else:
        activation.errors += 1
    if status in _TOKENS:
        if not activation.fired:
            if hop >= activation.hop:
                activation.hop = hop + 1
        elif activation.scheduled_seq:  # a late arrival is absorbed, with the way it came
            activation.late += (edge.source,)


def uncount(state: State, activation: Activation, source: int) -> None:
    """Take a resolution back; only a new generation does this."""
    status = activation.edges[source]
    state.drop(activation.edges, source)
    if source in activation.late:
        activation.late = tuple(one for one in activation.late if one != source)
    activation.taken -= status == TAKEN
    activation.skipped -= status == SKIPPED
    activation.failed -= status == FAILED
    activation.errors -= status == ERROR
    if activation.refused:
        activation.refused = is_refused(state, activation)  # another one may have been skipped too


def is_refused(state: State, activation: Activation) -> bool:
    """Whether a required dependency was skipped, and not because it lost to this node (rule 7)."""
    ir = governing_ir(state, activation)
    incoming = (state.irs[ir].edges[number] for number in state.node_in(ir, activation.node).edges_in)
    skipped = (e for e in incoming if e.required and activation.edges.get(e.source) == SKIPPED)
    return any(not _has_lost(state, activation, edge) for edge in skipped)


def _has_lost(state: State, winner: Activation, edge: Edge) -> bool:
    """Whether the source of the edge lost a race to its target."""
    source = latest(state, edge.source, winner.scope[: edge.common], governing_ir(state, winner))
    return source is not None and winner.key in source.lost


def current_scope(state: State, node: Node, prefix: Scope) -> Scope | None:
    """Where a token that enters `node` from the scope `prefix` arrives; None when a loop on the way is over."""
    scope = prefix
    for depth in range(len(prefix), len(node.loops)):
        run = state.loops.get((node.loops[depth], scope))
        if run is not None and run.status in ("closing", "ended"):
            return None
        scope = (*scope, run.iteration if run is not None else 1)
    return scope


def resolve(state: State, edge: Edge, ir: int, source: Activation, status: int) -> None:
    index = edge.target
    target = state.node_in(ir, index)
    scope = source.scope[: edge.common]
    if len(target.loops) > edge.common:
        state.put(state.entered, (edge.source, index, scope), (status, source.hop))
        entered = current_scope(state, target, scope)
        if entered is None:
            return
        scope = entered
    if len(state.irs) > 1 and not _knows(state, state.iteration_ir(scope, index), ir, edge):
        return
    key = key_of(index, scope)
    activation = state.activations.get(key)
    if activation is None:
        activation = _make(state, key, index, scope)
    elif edge.source in activation.edges:
        return  # done again after compensation; this target kept its outcome
    else:
        state.edit(activation)
    if edge.source not in activation.edges:  # `ensure` has already read an entry edge
        _count(state, activation, edge, status, source.hop)
    if activation.state is _PENDING and not activation.fired:
        if status in _TOKENS:  # it waits here
            activation.tokens += 1
            state.tokens += 1
        if state.touched is not None:
            state.touched.append(key)


def _knows(state: State, governing: int, ir: int, edge: Edge) -> bool:
    """Whether the target has this edge where it is. An iteration under way knows no edge that a patch brought, and
    nothing outside it knows an edge that a patch removed (rule 39)."""
    if governing == ir:
        return True
    edges, nodes = state.irs[governing].edges, state.irs[governing].nodes
    node = nodes[edge.target] if edge.target < len(nodes) else None
    return node is not None and any(edges[number].source == edge.source for number in node.edges_in)


def is_unlet(state: State, activation: Activation) -> bool:
    """Whether the join of the activation failed (rule 9): it was never to run, perhaps because an approval before it was not
    given. What a patch has changed since, the join or its edges, does not count."""
    if activation.item >= 0 or activation.scheduled_seq:
        return False
    ir = activation.ir if activation.fired else state.iteration_ir(activation.scope, activation.node)
    node = state.node_in(ir, activation.node)
    how = [activation.edges.get(state.irs[ir].edges[number].source) for number in node.edges_in]
    if node.join.at_least is None:
        return FAILED in how
    most = how.count(TAKEN) + how.count(None)
    return most < node.join.at_least and (FAILED in how or ERROR in how)


def unfix(activation: Activation) -> None:
    """Release the fixed inputs of an activation, to be taken anew: nothing has come too late for that (rule 26)."""
    activation.scheduled_seq, activation.late = 0, ()


def fire(state: State, activation: Activation) -> None:
    """Decide the join: its tokens are consumed, and what comes later is absorbed."""
    if activation.fired:
        return
    activation.scheduled_seq = 0  # of an earlier generation: whether it may run, and what it sees, is decided anew
    state.tokens -= activation.tokens
    activation.tokens = 0
    activation.fired = True
    if activation.item >= 0 or activation.visit:  # an activation that is decided anew stays the same visit
        return
    if not activation.scope:
        activation.visit = 1
        return
    activation.visit = state.visits.get(activation.node, 0) + 1
    state.put(state.visits, activation.node, activation.visit)


# -- routes ------------------------------------------------------------------------------------------------------------


def governing_ir(state: State, activation: Activation) -> int:
    """The IR whose routing counts for an activation: the current one; inside a loop, that of the iteration's start."""
    return state.iteration_ir(activation.scope, activation.node)


def follow_route(state: State, activation: Activation, route: Route, status: int = TAKEN) -> None:
    """Resolve the outgoing edges of an outcome. Exits of open loops wait for `loop.ended`."""
    activation.route, activation.routed = route, True
    ir = governing_ir(state, activation)
    node = state.node_in(ir, activation.node)
    if in_closed_iteration(state, activation):
        _resolve_again(state, activation, node, ir, status)
        return
    if route.back:
        run = own_loop_run(state, activation, node)
        state.edit(run)
        run.status, run.cause = "closing", activation.key
        if route.rule == RENEWS:
            run.renewal = activation.key
        return
    names = None if route.taken is None else set(route.taken)
    edges, leaves, depth = state.irs[ir].edges, len(node.loops), len(activation.scope)
    for number in node.edges_out:
        edge = edges[number]
        taken = not edge.named if names is None else state.node_in(ir, edge.target).id in names
        if edge.common < depth and not _loop_over(state, activation, node, edge):
            if taken and edge.named:
                leaves = min(leaves, edge.common)
            continue
        resolve(state, edge, ir, activation, status if taken else SKIPPED)
    if node.loop is not None:
        leaves = min(leaves, node.loops.index(activation.node))
    close_from(state, activation, node, leaves)


def close_from(state: State, activation: Activation, node: Node, depth: int) -> None:
    """Close the iteration of the loop at `depth`, which this outcome leaves together with the loops inside it."""
    if depth < len(activation.scope):
        run = state.loops[(node.loops[depth], activation.scope[:depth])]
        if run.status == "open":
            state.edit(run)
            run.status, run.cause = "closing", activation.key


def fail_edges(state: State, activation: Activation) -> None:
    """Leave a failure to the joins it reaches: every edge resolves as failed (rule 10)."""
    resolve_all(state, activation, FAILED)
    ir = governing_ir(state, activation)
    node = state.node_in(ir, activation.node)
    if node.loop is not None and not in_closed_iteration(state, activation):
        close_from(state, activation, node, node.loops.index(activation.node))


def resolve_all(state: State, activation: Activation, status: int) -> None:
    """Resolve every edge alike, except exits of loops that still run."""
    activation.routed = True
    ir = governing_ir(state, activation)
    node = state.node_in(ir, activation.node)
    if in_closed_iteration(state, activation):
        _resolve_again(state, activation, node, ir, status)
        return
    for number in node.edges_out:
        edge = state.irs[ir].edges[number]
        if edge.common < len(activation.scope) and not _loop_over(state, activation, node, edge):
            continue
        resolve(state, edge, ir, activation, status)


def _resolve_again(state: State, activation: Activation, node: Node, ir: int, status: int) -> None:
    """Resolve the edges of an activation that was done again after compensation, in an iteration that is closed. No
    way is chosen anew: only targets that were compensated after it, and wait for it, may go on (`generations.reopen`
    made only their edges undecided)."""
    for number in node.edges_out:
        edge = state.irs[ir].edges[number]
        if not speaks_outside(state, node.loops, activation.scope, edge.common):
            continue
        scope = current_scope(state, state.node_in(ir, edge.target), activation.scope[: edge.common])
        target = None if scope is None else state.activations.get(key_of(edge.target, scope))
        if target is not None and target.state is N.PENDING and not target.fired and edge.source not in target.edges:
            resolve(state, edge, ir, activation, status)


def _loop_over(state: State, activation: Activation, node: Node, edge: Edge) -> bool:
    return loops_over(state, node.loops, activation.scope, edge.common)


def loops_over(state: State, loops: tuple[int, ...], scope: Scope, depth: int) -> bool:
    """Whether no loop around `scope`, from this depth inwards, goes back again: edges out of them may resolve."""
    for inner in range(depth, len(scope)):
        run = state.loops.get((loops[inner], scope[:inner]))
        if run is None or run.status not in ("draining", "ended"):
            return False
        if run.status == "ended":  # and so is everything inside it
            return True
    return True


def speaks_outside(state: State, loops: tuple[int, ...], scope: Scope, depth: int) -> bool:
    """Whether `scope` is the last iteration of loops that are over, which is what counts outside them (rule 19)."""
    for inner in range(depth, len(scope)):
        run = state.loops.get((loops[inner], scope[:inner]))
        if run is None or run.iteration != scope[inner]:
            return False
    return loops_over(state, loops, scope, depth)


def own_loop_run(state: State, activation: Activation, node: Node) -> LoopRun:
    depth = node.loops.index(activation.node)
    return state.loops[(activation.node, activation.scope[:depth])]


def in_closed_iteration(state: State, activation: Activation) -> bool:
    """Whether some loop around the activation has gone on to another iteration, or is over."""
    if not activation.scope:
        return False
    loops = state.node_in(activation.ir, activation.node).loops
    for depth, iteration in enumerate(activation.scope):
        run = state.loops.get((loops[depth], activation.scope[:depth]))
        if run is not None and (run.iteration != iteration or run.status == "ended"):
            return True
    return False


def in_closing_iteration(state: State, activation: Activation) -> bool:
    return bool(activation.scope) and any(run.status == "closing" for run in state.loop_runs(activation))


def latest(state: State, node: int, prefix: Scope, ir: int) -> Activation | None:
    """The activation a node in loops stands for, seen from the scope `prefix`: that of the last iteration (rule 19)."""
    loops = state.node_in(ir, node).loops
    scope = prefix
    for depth in range(len(prefix), len(loops)):
        run = state.loops.get((loops[depth], scope))
        if run is None:
            return None
        scope = (*scope, run.iteration)
    return state.activations.get(key_of(node, scope))


def is_latest(state: State, activation: Activation) -> bool:
    """Whether the activation is what its node stands for now: in loops, that of the last iteration."""
    return not activation.scope or latest(state, activation.node, (), activation.ir) is activation


def head_of(state: State, run: LoopRun) -> Activation:
    """The activation of the loop's head in its current iteration."""
    loop = state.node_in(run.ir, run.loop).loop
    if loop is None:
        raise IntegrityError(f"run {state.run_id}: {state.name(run.loop)} is no loop")
    inner = len(state.node_in(run.ir, loop.head).loops) - len(run.scope) - 1
    return ensure(state, loop.head, (*run.scope, run.iteration, *([1] * inner)))


def drop_members(state: State, run: LoopRun) -> None:
    """Close the iteration: its pending members are cancelled, and their tokens with them."""
    for key in run.members:
        member = state.activations[key]
        if member.state is N.PENDING:
            state.edit(member)
            state.tokens -= member.tokens
            member.tokens = 0
            set_state(state, member, N.CANCELLED)
        elif not member.routed and member.state in ENDED:
            state.edit(member)
            member.routed = True
    run.members = []


def _has_ended(state: State, node: int, source: Activation | None, ir: int, scope: Scope) -> bool:
    """Whether, in a draining iteration `scope`, a node will not run again, nor a loop inside bring it once more."""
    loops = state.node_in(ir, node).loops
    if source is not None:
        return source.state in ENDED and loops_over(state, loops, source.scope, len(scope))
    for loop in loops[len(scope) :]:
        run = state.loops.get((loop, scope))
        if run is None or run.status == "ended":
            return run is not None
        scope = (*scope, run.iteration)
    return False


def resolve_exits(
    state: State, run: LoopRun, taken: tuple[tuple[str, str], ...], failed: tuple[tuple[str, str], ...]
) -> None:
    """Resolve the exit edges of a loop that is over; those of a draining iteration resolve as their sources end."""
    ir = len(state.irs) - 1 if not run.scope else run.ir
    looping = state.node_in(ir, run.loop)
    if looping.loop is None:
        raise IntegrityError(f"run {state.run_id}: node {looping.id} ends a loop it does not have")
    for number in looping.loop.exits:
        edge = state.irs[ir].edges[number]
        if not loops_over(state, looping.loops, run.scope, edge.common):
            continue
        source = latest(state, edge.source, run.scope, ir)
        if run.status == "draining" and _knows(state, run.ir, ir, edge):  # a patched edge that nothing resolves later
            if not _has_ended(state, edge.source, source, ir, (*run.scope, run.iteration)):
                continue
        if source is None:
            source = Activation(node=edge.source, scope=(*run.scope, run.iteration), ir=ir)
        pair = (state.node_in(ir, edge.source).id, state.node_in(ir, edge.target).id)
        if pair in failed:
            status = FAILED
        elif pair in taken:
            status = ERROR if source.state is N.FAILED else TAKEN
        else:
            status = SKIPPED
        resolve(state, edge, ir, source, status)


# -- edges that a patch brings -----------------------------------------------------------------------------------------


def is_new(state: State, edge: Edge, before: int) -> bool:
    """Whether an earlier IR of the run lacks this edge."""
    nodes, edges = state.irs[before].nodes, state.irs[before].edges
    source = nodes[edge.source] if edge.source < len(nodes) else None
    return source is None or all(edges[number].target != edge.target for number in source.edges_out)


def went_aside(state: State, ir: int, source: Activation) -> bool:
    """Whether the source took a path of its own, and so not the edges that no routing names (rules 6 and 16)."""
    if source.route is None:
        return False
    if source.route.rule == "loop.timeout":
        loop = state.node_in(ir, source.node).loop
        return loop is not None and bool(loop.timeout_path) and loop.break_path is None
    return source.route.rule in ("rejection_path", "on_failure.path")
