"""Edges, joins, tokens and loops: E1, E2, E3, E4, E5 and E7."""

from __future__ import annotations

from typing import Literal

from perdure.invariants.graph import Edge, Graph
from perdure.invariants.model import ENDED, ERROR, FAILED, OPEN, SKIPPED, TAKEN, Act, Key, Loop, Model
from perdure.kernel.events import LoopAdvanced, LoopEnded, Scope
from perdure.kernel.values import Route

# -- joins -------------------------------------------------------------------------------------------------------------


def verdict(model: Model, act: Act, without: frozenset[str] = frozenset()) -> Literal["wait", "fire", "skip", "fail"]:
    """What the join of an activation says (rules 7, 8, 9); or would say, had nothing come from some of its sources."""
    graph = model.graph_of(act)
    edges = graph.incoming.get(act.node, [])
    if act.called or act.won:
        return "fire"
    known = {source: how for source, how in act.edges.items() if source not in without}
    skipped = (edge for edge in edges if edge.required and known.get(edge.source) == SKIPPED)
    if any(act.key not in _lost(model, graph, edge, act) for edge in skipped):
        return "skip"
    how = [known[edge.source] for edge in edges if edge.source in known]
    needed = graph.nodes[act.node].join.at_least
    if needed is None:
        if FAILED in how:
            return "fail"
        if len(how) < len(edges):
            return "wait"
        return "fire" if not edges or TAKEN in how or ERROR in how else "skip"
    taken = how.count(TAKEN)
    if taken >= needed:
        return "fire"
    if taken + len(edges) - len(how) >= needed:
        return "wait"
    return "fail" if FAILED in how or ERROR in how else "skip"


def _lost(model: Model, graph: Graph, edge: Edge, act: Act) -> frozenset[Key]:
    """The joins that the source of an edge of this activation lost to."""
    source = model.latest(graph, edge.source, act.scope[: edge.common])
    return frozenset() if source is None else source.lost


def lose(model: Model, act: Act) -> None:
    """Before an activation is skipped: it lost to a join, if its own would not say so without those who did (rule 7)."""
    graph = model.graph_of(act)
    if act.fired or act.item is not None or act.node not in graph.nodes or verdict(model, act) != "skip":
        return
    lost: dict[Key, frozenset[str]] = {}
    for edge in graph.incoming.get(act.node, ()):
        for join in _lost(model, graph, edge, act) if act.edges.get(edge.source) == SKIPPED else ():
            lost[join] = lost.get(join, frozenset()) | {edge.source}
    act.lost = frozenset(join for join, losers in lost.items() if verdict(model, act, losers) != "skip")


def fire(model: Model, act: Act) -> None:
    """Decide the join: its tokens are consumed and its definition is pinned."""
    if not act.fired:
        model.tokens -= act.tokens
        act.tokens = 0
        act.fired = True
        governing = model.governing(act.node, act.scope)
        act.graph = max(act.graph, governing)
        if (node := model.graphs[governing].nodes.get(act.node)) is not None and node.join.cancel_rest:
            model.races.append((act.key, governing))


def expect(model: Model, act: Act, *allowed: str) -> None:
    """E2: the join must say one of these. A join is decided once, and not asked again after that."""
    if act.fired or act.item is not None:
        return
    if act.node not in model.graph_of(act).nodes:
        model.blame("E2", f"{act.place} is not in the workflow")
        return
    said = verdict(model, act)
    if said not in allowed:
        model.blame("E2", f"{act.place} is decided as {allowed[0]}, its join says {said}: {act.edges}")


def is_unlet(model: Model, act: Act) -> bool:
    """Whether the join of an activation fails here and now: it is never to run, unless a new generation decides the join anew."""
    known = act.item is None and not act.fired and act.node in model.graph_of(act).nodes
    return known and verdict(model, act) == "fail"


def win(model: Model, loser: Act) -> None:
    """Mark the join that this loser is cancelled for as won: how the losers' edges resolve no longer matters to it."""
    for graph in dict.fromkeys((model.graph_of(loser), model.graph)):  # a join around its loop may have a later graph
        name = graph.regions.get(loser.node)
        while name is not None:
            shared = sum(a == b for a, b in zip(graph.loops[name], graph.loops[loser.node], strict=False))
            join = model.latest(graph, name, loser.scope[:shared])
            undecided = join is not None and join.state == "pending" and not join.fired
            if join is not None and undecided and model.graph_of(join) is graph and verdict(model, join) == "fire":
                join.won = True
                loser.lost |= {join.key}
            name = graph.regions.get(name)


# -- edges -------------------------------------------------------------------------------------------------------------


def resolve(
    model: Model, graph: Graph, edge: Edge, source: Act | None, prefix: Scope, status: str, *, again: bool = False
) -> None:
    hop = 0 if source is None else source.hop
    scope = prefix
    if len(graph.loops[edge.target]) > edge.common:
        model.entered[(edge.source, edge.target, prefix)] = (status, hop)
        arrives = model.current(graph, edge.target, prefix)
        if arrives is None:
            return
        scope = arrives
    governing = model.graphs[model.governing(edge.target, scope)]
    if governing is not graph and not governing.has(edge.source, edge.target):
        return  # a patch brought the edge, and the next iteration reads it; or a patch removed it
    new = (edge.target, scope, None) not in model.acts
    act = model.get(edge.target, scope)
    if edge.source in act.edges and not new:
        streamed = edge.streams and source is not None and source.led  # when it began to yield (F1)
        known = again or streamed or (source is not None and source.redo) or (edge.source, edge.target) in model.absent
        if not known:
            model.blame("E1", f"the edge {edge.source} -> {act.place} resolves again")
        return
    act.edges[edge.source] = status
    if status in (TAKEN, ERROR) and not act.fired:
        act.hop = max(act.hop, hop + 1)
        if act.state == "pending":
            act.tokens += 1
            model.tokens += 1


def loop_over(model: Model, graph: Graph, act: Act, edge: Edge) -> bool:
    return loops_over(model, graph.loops[act.node], act.scope, edge.common)


def loops_over(model: Model, loops: tuple[str, ...], scope: Scope, depth: int) -> bool:
    """Whether no loop around `scope`, from this depth inwards, goes back any more."""
    for inner in range(depth, len(scope)):
        run = model.loops.get((loops[inner], scope[:inner]))
        if run is None or run.status not in ("draining", "ended"):
            return False
        if run.status == "ended":
            return True
    return True


def speaks_outside(model: Model, loops: tuple[str, ...], scope: Scope, depth: int) -> bool:
    """Whether `scope` is the last iteration of loops that are over, which alone counts outside them."""
    for inner in range(depth, len(scope)):
        run = model.loops.get((loops[inner], scope[:inner]))
        if run is None or run.iteration != scope[inner]:
            return False
    return loops_over(model, loops, scope, depth)


def follow_route(model: Model, act: Act, route: Route, status: str = TAKEN) -> None:
    act.routed = act.has_route = True
    act.rule = route.rule
    graph = model.graph_of(act)
    edges, loops = graph.outgoing.get(act.node, []), graph.loops.get(act.node, ())
    unknown = set(route.taken or ()) - {edge.target for edge in edges}
    if unknown and route.rule != "adopted":
        model.blame("E3", f"{act.place} takes edges it does not have: {', '.join(sorted(unknown))}")
    if model.closed(act):
        resolve_again(model, act, status)
        return
    if route.back:
        own = loops.index(act.node) if act.node in loops else -1
        if own < 0:
            model.blame("E7", f"{act.place} goes back and is no loop")
            return
        close(model, act, model.loop(act.node, act.scope[:own]))
        return
    leaves = len(loops)
    for edge in edges:
        taken = not edge.named if route.taken is None else edge.target in route.taken
        if edge.common < len(act.scope) and not loop_over(model, graph, act, edge):
            if taken and edge.named:
                leaves = min(leaves, edge.common)
            continue
        resolve(model, graph, edge, act, act.scope[: edge.common], status if taken else SKIPPED)
    if act.node in graph.heads:
        leaves = min(leaves, loops.index(act.node))
    if leaves < len(act.scope):
        close(model, act, model.loop(loops[leaves], act.scope[:leaves]))


def close(model: Model, act: Act, run: Loop) -> None:
    if run.status == "open":
        run.status, run.cause = "closing", act.key


def resolve_all(model: Model, act: Act, status: str) -> None:
    """Resolve every edge alike, except exits of loops that still run."""
    act.routed = True
    if model.closed(act):
        resolve_again(model, act, status)
        return
    graph = model.graph_of(act)
    for edge in graph.outgoing.get(act.node, ()):
        if edge.common < len(act.scope) and not loop_over(model, graph, act, edge):
            continue
        resolve(model, graph, edge, act, act.scope[: edge.common], status)


def fail_edges(model: Model, act: Act) -> None:
    """Leave an absorbed failure to the joins; a loop whose looping node failed is over."""
    resolve_all(model, act, FAILED)
    graph = model.graph_of(act)
    if act.node in graph.heads and not model.closed(act):
        own = graph.loops[act.node].index(act.node)
        close(model, act, model.loop(act.node, act.scope[:own]))


def resolve_again(model: Model, act: Act, status: str) -> None:
    """Resolve edges of an activation that was done again in a closed iteration, for targets that wait for it."""
    graph = model.graph_of(act)
    for edge in graph.outgoing.get(act.node, ()):
        if not speaks_outside(model, graph.loops[act.node], act.scope, edge.common):
            continue
        prefix = act.scope[: edge.common]
        scope = model.current(graph, edge.target, prefix)
        target = None if scope is None else model.acts.get((edge.target, scope, None))
        if target is None or target.state != "pending" or target.fired or edge.source in target.edges:
            continue
        resolve(model, graph, edge, act, prefix, status)


# -- loops -------------------------------------------------------------------------------------------------------------


def advanced(model: Model, event: LoopAdvanced) -> None:
    run = _loop(model, event.node, event.scope)
    if run is None:
        return
    if event.iteration != run.iteration + 1 or run.status != "closing":
        model.blame("E7", f"loop {event.node} goes from {run.iteration} ({run.status}) to {event.iteration}")
    node = model.graphs[run.graph].nodes[event.node]
    most = node.loop.max_iterations if node.loop is not None else None
    if most is not None and event.iteration > most:
        model.blame("E5", f"loop {event.node} begins iteration {event.iteration} of {most}")
    cause = model.acts.get(run.cause) if run.cause is not None else None
    _drop(model, run)
    run.iteration, run.status, run.cause = event.iteration, "open", None
    if not run.scope:
        run.graph = len(model.graphs) - 1
        run.began = (*run.began, (run.iteration, run.graph))
    graph = model.graphs[run.graph]
    name = graph.heads.get(event.node)
    if name is None:
        model.blame("E7", f"{event.node} is no loop")
        return
    deeper = len(graph.loops[name]) - len(run.scope) - 1
    head = model.get(name, (*run.scope, run.iteration, *([1] * deeper)))
    head.called = True
    head.hop = max(head.hop, 0 if cause is None else cause.hop + 1)


def ended(model: Model, event: LoopEnded) -> None:
    run = _loop(model, event.node, event.scope)
    if run is None:
        return
    expected = ("open",) if event.reason == "skipped" else ("closing",)
    if run.status not in expected:
        model.blame("E7", f"loop {event.node} ends ({event.reason}) while it is {run.status}")
    run.cause, run.failed = None, event.reason == "failed"
    if event.reason == "skipped":
        run.status = "draining"
    else:
        _drop(model, run)
        run.status = "ended"
    graph = model.graphs[run.graph] if run.scope else model.graph
    loops = graph.loops[event.node]
    exits = [edge for edge in graph.exits.get(event.node, ()) if loops_over(model, loops, run.scope, edge.common)]
    listed = {*event.taken, *event.failed}
    for pair in sorted(listed - {(edge.source, edge.target) for edge in exits}):
        model.blame("E3", f"loop {event.node} resolves an edge it does not have: {pair}")
    for edge in exits:
        source = model.latest(graph, edge.source, run.scope)
        if run.status == "draining" and model.graphs[run.graph].has(edge.source, edge.target):
            if not _has_ended(model, graph, edge, source, (*run.scope, run.iteration)):
                continue
        pair = (edge.source, edge.target)
        status = SKIPPED
        if pair in event.failed:
            status = FAILED
        elif pair in event.taken:
            if source is None or source.state not in ("completed", "failed"):
                model.blame(
                    "E2", f"loop {event.node} takes {edge.source} -> {edge.target}, and {edge.source} has not ended"
                )
            status = ERROR if source is not None and source.state == "failed" else TAKEN
        resolve(model, graph, edge, source, run.scope[: edge.common], status, again=run.again)


def _has_ended(model: Model, graph: Graph, edge: Edge, source: Act | None, scope: Scope) -> bool:
    """Whether the source will not run (again) in this draining iteration."""
    loops = graph.loops[edge.source]
    if source is not None:
        return source.state in ENDED and loops_over(model, loops, source.scope, len(scope))
    for loop in loops[len(scope) :]:
        run = model.loops.get((loop, scope))
        if run is None or run.status == "ended":
            return run is not None
        scope = (*scope, run.iteration)
    return False


def _loop(model: Model, node: str, scope: Scope) -> Loop | None:
    run = model.loops.get((node, scope))
    if run is None:
        model.blame("E7", f"loop {node}{list(scope)} has not begun")
    return run


def _drop(model: Model, run: Loop) -> None:
    """Close the iteration: nothing in it may be open, and what waited in it waits no longer."""
    for key in run.members:
        act = model.acts[key]
        if act.state in OPEN:
            model.blame("E7", f"iteration {run.iteration} of {run.node} closes while {act.place} is {act.state}")
        elif act.state == "pending":
            model.tokens -= act.tokens
            act.tokens = 0
            act.state = "cancelled"
        elif act.state in ENDED:
            act.routed = True
    run.members = {}
