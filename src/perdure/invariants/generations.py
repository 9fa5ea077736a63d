"""`run.retried`: what a new generation makes ready again (rule 26), as the counter must show it (E4, R4)."""

from __future__ import annotations

from perdure.invariants.flow import speaks_outside
from perdure.invariants.graph import Edge, Graph
from perdure.invariants.model import ERROR, FAILED, SKIPPED, TAKEN, Act, Key, Loop, Model
from perdure.kernel import events as e
from perdure.kernel.events import Scope

_UNDECIDED = ("pending", "skipped", "upstream_failed")


def retried(model: Model, event: e.RunRetried) -> None:
    if model.state != "failed" and not (model.state == "cancelled" and model.orphaned):
        model.blame("R4", f"the run is {model.state} and is retried")
    if event.generation != model.generation + 1:
        model.blame("R4", f"generation {event.generation} comes after {model.generation}")
    model.state, model.generation, model.orphaned = "running", event.generation, False
    model.whole.clear()
    again, reopened = _again(model)
    model.refused = None
    for act in again.values():
        if act.unlet:
            act.fired = act.unlet = False
        _make_ready(act)
        if not act.fired:
            act.tokens = sum(status in (TAKEN, ERROR) for status in act.edges.values())
    for act in list(again.values()):
        if act.item is None:
            _forget_all(model, act, again)
    for run in reopened:
        graph = model.graphs[run.graph] if run.scope else model.graph
        for edge in graph.exits.get(run.node, ()):
            _forget(model, graph, edge, run.scope[: edge.common], again, closed=False)
    _go_on(model, again)
    for run in model.loops.values():
        if run.status == "closing" and run.cause in again:
            run.status, run.cause = "open", None
    model.tokens = 0
    for act in model.acts.values():
        if act.state == "pending" and not act.fired:
            model.tokens += act.tokens
        elif act.state == "cancelled" and act.cut == "parked":
            act.cut = ""
            model.set_state(act, "parked")
    if event.deadline_at is not None:
        model.timers["deadline"] = event.deadline_at


def _again(model: Model) -> tuple[dict[Key, Act], list[Loop]]:
    again: dict[Key, Act] = {}
    reopened: list[Loop] = []
    blamed: list[Act] = []
    for act in model.acts.values():
        if act.item is not None:
            owner = model.get(act.node, act.scope)
            if owner.state == "completed":
                if act.state != "compensated":
                    continue
                again[owner.key] = owner
        if act.state == "upstream_failed" and not act.handled:
            blamed.append(act)
            continue
        failed = act.state == "failed" and not act.handled
        said_no = act.key == model.refused and (act.state == "failed" or (act.state == "completed" and act.rejected))
        cut_off = act.state == "cancelled" and act.cut not in ("", "parked")
        if failed or cut_off or said_no or act.state == "compensated":
            again[act.key] = act
            if act.state == "failed" and act.unlet:
                blamed.append(act)
    while blamed:
        join = blamed.pop()
        graph = model.graphs[join.graph]
        for edge in graph.incoming[join.node]:
            if join.edges.get(edge.source) not in (FAILED, ERROR):
                continue
            act_ = model.latest(graph, edge.source, join.scope[: edge.common])
            if act_ is None or act_.key in again:
                continue
            _reopen_loop(model, act_, again, reopened)
            if act_.state == "upstream_failed":
                blamed.append(act_)
            elif act_.state == "failed":
                again[act_.key] = act_
                if act_.unlet:
                    blamed.append(act_)
    return again, reopened


def _reopen_loop(model: Model, act: Act, again: dict[Key, Act], reopened: list[Loop]) -> None:
    """Reopen a loop that ended by this failure, with what its end cut off."""
    run = model.loops.get((act.node, act.scope[:-1])) if act.scope else None
    if run is None or run.status != "ended" or act.has_route or run.iteration != act.scope[-1]:
        return
    if not run.failed:
        return
    run.status, run.again = "open", True
    reopened.append(run)
    for other in model.acts.values():
        inside = other.scope[: len(act.scope)] == act.scope
        if inside and run.node in model.graphs[other.graph].loops.get(other.node, ()):
            run.members[other.key] = None
            if other.state == "cancelled" and (other.for_loop or not other.fired):
                again[other.key] = other
            elif other.state == "completed" and not other.has_route and other.item is None:
                other.routed = False


def _go_on(model: Model, again: dict[Key, Act]) -> None:
    """Reopen loops that ended because their looping node was skipped, where that is undecided again (rule 18)."""
    while True:
        drained = [run for run in model.loops.values() if run.status == "draining"]
        run = next((run for run in drained if (run.node, (*run.scope, run.iteration), None) in again), None)
        if run is None:
            return
        run.status, run.again = "open", True
        graph = model.graphs[run.graph] if run.scope else model.graph
        for edge in graph.exits.get(run.node, ()):
            _forget(model, graph, edge, run.scope[: edge.common], again, closed=False)


def _make_ready(act: Act) -> None:
    act.state, act.cut, act.wait, act.wait_name = "pending", "", "", ""
    act.accepted = act.handled = act.routed = act.has_route = act.spent = act.discarded = False
    act.rejected, act.lost = False, frozenset()
    if act.planned:
        act.steps = act.begun = frozenset()
    act.rule, act.retry_at = "", None
    act.redo = True
    act.floor, act.failures, act.crashes = act.attempt + 1, 0, 0


def _forget_all(model: Model, source: Act, again: dict[Key, Act]) -> None:
    """Make what this activation decided for others undecided again, unless they keep an outcome."""
    graph = model.graph_of(source)
    closed = model.closed(source)
    for edge in graph.outgoing.get(source.node, ()):
        if closed and not speaks_outside(model, graph.loops[source.node], source.scope, edge.common):
            continue
        _forget(model, graph, edge, source.scope[: edge.common], again, closed=closed)


def _forget(model: Model, graph: Graph, edge: Edge, prefix: Scope, again: dict[Key, Act], *, closed: bool) -> None:
    scope: Scope | None = prefix
    for loop in graph.loops[edge.target][len(prefix) :]:
        run = model.loops.get((loop, scope or ()))
        scope = None if run is None or run.status == "ended" or scope is None else (*scope, run.iteration)
        if scope is None:
            break
    target = None if scope is None else model.acts.get((edge.target, scope, None))
    if target is None or edge.source not in target.edges:
        return
    if target.key not in again and target.state not in _UNDECIDED:
        return
    if closed and (target.state == "skipped" or target.edges[edge.source] == SKIPPED):
        return
    model.entered.pop((edge.source, edge.target, prefix), None)
    now = {known.source for known in model.graph_of(target).incoming.get(target.node, ())} - {edge.source}
    target.edges = {source: status for source, status in target.edges.items() if source in now}
    if target.state in ("skipped", "upstream_failed"):
        _make_ready(target)
        again[target.key] = target
        target.fired = False
        _forget_all(model, target, again)
    target.fired = target.won = target.unlet = False
    target.tokens = sum(status in (TAKEN, ERROR) for status in target.edges.values())
