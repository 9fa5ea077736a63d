"""The run as a whole: J4, R1, R3, R4; its ends, and what a patch may do (E6)."""

from __future__ import annotations

from perdure.invariants import guards, past
from perdure.invariants.flow import resolve
from perdure.invariants.graph import Edge, Graph
from perdure.invariants.model import ENDED, ERROR, FAILED, OPEN, RUN_OVER, SKIPPED, TAKEN, Act, Model
from perdure.kernel import events as e

TRANSITIONS: dict[str, set[str]] = {
    "running": {"paused", "failing", "cancelling", "completed", "cancelled"},
    "paused": {"paused", "running", "failing", "cancelling", "completed", "cancelled"},
    "failing": {"failed", "compensating", "cancelling", "cancelled"},
    "cancelling": {"cancelled", "compensating"},
    "compensating": {"failed", "cancelled", "rolled_back"},
    "completed": {"compensating"},
    "failed": {"running", "compensating"},
    "cancelled": {"compensating"},
}

AUDIT = (e.ResultIgnored, e.RunUndelivered)
"""Events that may follow the end of a run."""


def move(model: Model, state: str) -> None:
    if state not in TRANSITIONS.get(model.state, ()):
        model.blame("R4" if model.state in RUN_OVER else "V5", f"the run goes from {model.state} to {state}")
    model.state = state


def created(model: Model, event: e.RunCreated) -> None:
    graph = model.library.find(event.ir)
    if graph is None:
        model.blame("J6", f"the IR {event.ir} of the run is not at hand")
        return
    model.graphs = [graph]
    model.state, model.generation = "running", event.generation
    model.continues = event.origin is not None and not event.origin[1]
    if event.deadline_at is not None:
        model.timers["deadline"] = event.deadline_at


def paused(model: Model, event: e.RunPaused) -> None:
    if model.state != "paused":
        model.pauses.clear()
    elif event.reason in model.pauses:
        model.blame("rule 30", f"the run is paused for {event.reason!r} twice")
    model.pauses.add(event.reason)
    move(model, "paused")


def resumed(model: Model, event: e.RunResumed) -> None:
    if model.state != "paused":
        model.blame("R4" if model.state in RUN_OVER else "V5", f"the run is {model.state} and is resumed")
    if event.left:
        model.pauses.discard(event.reason)
        if model.pauses != set(event.left):
            model.blame("rule 30", f"the run stays paused for {event.left}; it is for {sorted(model.pauses)}")
        return
    if event.reason and model.pauses - {event.reason}:
        model.blame("rule 30", f"the end of the pause {event.reason!r} resumes what is paused for others too")
    model.state = "running"


def undelivered(model: Model, event: e.RunUndelivered) -> None:
    if model.state != "completed":
        model.blame("J4", f"the run is {model.state}, and {event.to} was to continue it")


def signalled(model: Model, event: e.RunSignalled) -> None:
    model.signals[event.name] = model.signals.get(event.name, 0) + 1


def settled(model: Model) -> None:
    """Check what must hold when an append ends, though not in the middle of it: R1, rules 11, 26 and 31."""
    live = model.state in ("running", "paused")
    if live and not model.counter:
        model.blame("R1", "nothing is open, and the run does not complete in this append")
    if model.late and live:
        model.blame("rule 31", f"the deadline has passed and the run is {model.state}")
    for key, graph in model.races if live else ():
        _losers_are_cancelled(model, model.acts[key], model.graphs[graph])
    if live:
        past.settled(model)
    model.late, model.races, model.settled_seq = False, [], model.seq


def _losers_are_cancelled(model: Model, join: Act, graph: Graph) -> None:
    """Rule 11, by the graph that the join was decided with: a patch in the same append makes no loser."""
    taken, needed = list(join.edges.values()).count(TAKEN), graph.nodes[join.node].join.at_least
    if needed is None or taken < needed or join.state == "cancelled" or join.redo:
        return  # the join has not won
    required = (edge.source for edge in graph.incoming[join.node] if edge.required)
    if not join.won and any(join.edges.get(source) == SKIPPED for source in required):
        return  # the join was skipped because a node it requires was (rule 7); what comes later is no race
    for act in model.acts.values():
        if act.state not in OPEN or act.open_since > model.settled_seq or act.item is not None or act.redo:
            continue
        name = graph.regions.get(act.node)
        while name is not None and name != join.node:
            name = graph.regions.get(name)
        if name == join.node and act.scope[: len(join.scope)] == join.scope:
            model.blame("rule 11", f"{act.place} lost the race to {join.place} and is {act.state}")


def failing(model: Model, event: e.RunFailing) -> None:
    model.late = model.grace_over = False
    move(model, "failing")
    act = None if event.node is None else model.acts.get((event.node, event.scope, None))
    model.refused = act.key if act is not None and event.error.code == "rejected" else None
    if act is not None and act.accepted and event.error.code in ("rejected", "loop_exhausted"):
        if past.is_unrouted(act) or act.state == "parked":  # no handler raised this error: the node has an outcome
            model.blame(
                "rule 25", f"the run fails with {event.error.code}, and {act.place}, which is to blame, has not"
            )


def cancelling(model: Model, event: e.RunCancelling) -> None:
    model.orphaned, model.grace_over = event.orphaned, event.grace_until is None
    move(model, "cancelling")
    if event.grace_until is not None:
        model.timers["grace"] = event.grace_until


def failed(model: Model, event: e.RunFailed) -> None:
    _children_ended(model)
    _end(model, "failed")


def cancelled(model: Model, event: e.RunCancelled) -> None:
    _end(model, "cancelled")


def rolled_back(model: Model, event: e.RunRolledBack) -> None:
    _end(model, "rolled_back")


def completed(model: Model, event: e.RunCompleted) -> None:
    if event.continued_as is None and model.counter:
        found = [f"{act.place} is {act.state}" for act in model.acts.values() if act.state in OPEN or act.tokens]
        model.blame("R1", f"the run completes while its counter is {model.counter}: {', '.join(found)}")
    due = {name for name in model.timers if not name.startswith("trigger:")}  # a moment that nobody waits for (rule 54)
    if event.continued_as is None and due - {"deadline", "grace", "budget"}:
        model.blame("R1", f"the run completes while timers are set: {', '.join(sorted(model.timers))}")
    for act in model.acts.values() if event.continued_as is None else ():
        if past.is_unrouted(act) and not model.closed(act):
            model.blame("R1", f"the run completes, and the outcome of {act.place} has not been routed")
    _end(model, "completed")


def _end(model: Model, state: str) -> None:
    if model.state == "compensating" and state in ("failed", "rolled_back") and model.undoing:
        model.blame("R1", f"the run is {state} and {model.undoing} compensations are open")
    move(model, state)
    _close(model)
    model.tokens = model.undoing = 0
    model.plan = []


def _close(model: Model) -> None:
    if model.open:
        for act in model.acts.values():
            if act.state in OPEN:
                act.cut = act.state
                model.stop_waiting(act)
                model.set_state(act, "cancelled")
    model.timers.clear()


def _children_ended(model: Model) -> None:
    """Check that a failing run waits for the children it has stopped, unless they take too long. An operator may later
    cancel without waiting for any of them, and no event tells of that."""
    if model.state == "failing" and not model.grace_over:
        for act in model.acts.values():
            open_child = act.wait == "child" or any(child.open for child in act.brood.values())
            if act.state == "waiting" and open_child:
                model.blame("rule 25", f"the run ends while {act.place} waits for its child")


def compensating(model: Model, event: e.RunCompensating) -> None:
    _children_ended(model)
    over = model.state in RUN_OVER
    if event.generation != model.generation + over:
        model.blame("R4", f"compensation begins in generation {event.generation}; the run is in {model.generation}")
    move(model, "compensating")
    _close(model)
    model.tokens, model.generation = 0, event.generation
    model.plan = []
    last: int | None = None
    for place in event.plan:
        act = model.get(place.node, place.scope, place.item)
        act.planned = True
        if act.state != "completed" and not any(child.done for child in act.brood.values()):
            model.blame("V5", f"{act.place} is {act.state} and is to be compensated")
        if last is not None and act.completed_seq > last:
            model.blame("V5", f"{act.place} is to be compensated after what was completed before it (rule 34)")
        last = act.completed_seq
        act.undo_retry_at = None
        model.plan.insert(0, act.key)
    model.undoing = len(model.plan)


# -- patches -----------------------------------------------------------------------------------------------------------


def patched(model: Model, event: e.RunPatched) -> None:
    if model.state not in ("running", "paused"):
        model.blame("E6", f"the run is {model.state} and is patched")
    graph = model.library.find(event.ir)
    if graph is None:
        model.blame("J6", f"the patched IR {event.ir} is not at hand")
        return
    old = model.graph
    guards.remember(model)
    guards.compare(model, old, graph)
    for act in model.acts.values():
        _keeps_its_place(model, act, old.loops.get(act.node), graph.loops.get(act.node))
    model.graphs.append(graph)
    moved = {name for name, loops in graph.loops.items() if old.loops.get(name, loops) != loops}
    for name in graph.nodes.keys() - old.nodes.keys():  # removed before it was activated, and back: another node
        model.acts.pop((name, (), None), None)
    for name in moved:  # so is what waited where it no longer stands
        waiting = model.acts.get((name, (), None))
        if waiting is not None and waiting.state == "pending" and not waiting.fired:
            del model.acts[waiting.key]
    for name, edges in graph.outgoing.items():
        for edge in edges:
            if not old.has(name, edge.target):
                _resolve_new(model, edge)
            elif name in moved or edge.target in moved:
                _forget_moved(model, edge)
                _resolve_new(model, edge)
    for act in list(model.acts.values()):
        done_anew = bool(act.scope) and act.attempt > 0
        if event.mends and act.state == "pending" and (act.fired or done_anew) and act.item is None:
            if act.node in graph.nodes:
                act.graph = len(model.graphs) - 1
            continue
        if act.state != "pending" or act.scope or act.fired:
            continue
        if act.node not in graph.nodes:
            act.state = "cancelled"
            continue
        for source in [source for source in act.edges if not graph.has(source, act.node)]:
            if act.edges.pop(source) in (TAKEN, ERROR):
                model.blame("E6", f"the token on {source} -> {act.place} has no edge any more")


def _keeps_its_place(model: Model, act: Act, before: tuple[str, ...] | None, after: tuple[str, ...] | None) -> None:
    if (act.state == "pending" and not act.tokens) or before is None:
        return
    if after is None:
        model.blame("E6", f"{act.place} is {act.state} and a patch removes it")
    elif after != before:
        model.blame("E6", f"{act.place} is {act.state} and a patch moves it into or out of a loop")


def _forget_moved(model: Model, edge: Edge) -> None:
    """Undecide an edge of a node that moves: how it resolved before counts for no join that has not fired."""
    model.entered.pop((edge.source, edge.target, ()), None)
    target = model.acts.get((edge.target, (), None))
    if target is None:
        return
    if target.state == "pending" and not target.fired:
        if target.edges.pop(edge.source, SKIPPED) in (TAKEN, ERROR):
            model.blame("E6", f"the token on {edge.source} -> {target.place} has no edge any more")
    elif edge.source in target.edges:
        model.absent.add((edge.source, edge.target))  # without its source: what was activated does not move


def _resolve_new(model: Model, edge: Edge) -> None:
    """Resolve a new edge from a node that has ended, together with the patch (rule 39)."""
    graph = model.graph
    source = model.latest(graph, edge.source, ())
    loops = graph.loops[edge.source]
    status = SKIPPED
    if loops:
        run = model.loops.get((loops[0], ()))
        if edge.common or run is None or run.status not in ("draining", "ended"):
            return
        if run.status == "draining" and (source is None or source.state not in ENDED):
            model.blame("E6", f"the new edge {edge.source} -> {edge.target} leaves an iteration that drains")
            return
    elif source is None or source.state not in ENDED or not source.routed:
        return
    if source is None:
        model.absent.add((edge.source, edge.target))
    else:
        named = edge.named or _went_aside(graph, source)
        if source.state in ("completed", "compensated"):
            status = SKIPPED if named else TAKEN
        elif source.state in ("failed", "upstream_failed") and source.handled:
            status = FAILED if not source.has_route else SKIPPED if named else ERROR
    scope = model.current(graph, edge.target, ()) or ()
    target = model.acts.get((edge.target, scope, None))
    if target is not None and (target.fired or scope) and edge.source in target.edges:
        return  # removed and brought back: the edge has resolved
    resolve(model, graph, edge, source, (), status)


def _went_aside(graph: Graph, source: Act) -> bool:
    """Whether the source took a path of its own, and with it none of the edges that no routing names."""
    if source.rule == "loop.timeout":
        loop = graph.nodes[source.node].loop
        return loop is not None and bool(loop.timeout_path) and loop.break_path is None
    return source.rule in ("rejection_path", "on_failure.path")
