"""AG3: what a handler's patch did to its run, and that the patch and its answer are one. By ids, from the events alone."""

from __future__ import annotations

from perdure.invariants.graph import Graph
from perdure.invariants.model import Model
from perdure.kernel import events as e

_BY = "agent:"


def look(model: Model, event: e.Event) -> None:
    """Look at an event before the rules that follow it: what it answers is still asked for."""
    asker, ask = model.patching
    model.patching = ("", "")
    answers = isinstance(event, e.NodeCheckpointed) and event.version == 2 and event.step
    if ask and not (isinstance(event, e.NodeCheckpointed) and answers and (event.node, event.step) == (asker, ask)):
        model.blame("AG3", f"{asker} has patched its run for {ask!r}, and the next event is no answer to that")
    if isinstance(event, e.RunPatched) and event.ask:
        model.patching = (event.by.removeprefix(_BY), event.ask)
        _look_at(model, event)
    elif isinstance(event, e.NodeCheckpointed) and answers and not ask and _is_applied(model, event):
        model.blame("AG3", f"{event.node} is told that its patch {event.step!r} was applied, and it was not")


def _is_applied(model: Model, event: e.NodeCheckpointed) -> bool:
    act = model.acts.get((event.node, event.scope, event.item))
    waits = act is not None and (event.step, "patch") in act.asks
    return waits and isinstance(event.data, dict) and event.data.get("applied") is True


def _look_at(model: Model, event: e.RunPatched) -> None:
    asker, new, old = event.by.removeprefix(_BY), model.library.find(event.ir), model.graph
    waiting = [act for act in model.acts.values() if act.node == asker and (event.ask, "patch") in act.asks]
    if not event.by.startswith(_BY) or not any(act.state == "waiting" for act in waiting):
        model.blame("AG3", f"'{event.by}' patches the run for {event.ask!r}, and no node waits for that")
    if new is None:
        return
    added = new.nodes.keys() - old.nodes.keys()
    chosen = model.graphs[0].agents.get(asker, frozenset())
    before, after = _edges(old), _edges(new)
    if old.nodes.keys() - new.nodes.keys() or before - after:
        model.blame("AG3", f"a patch of {asker} removes what was there")
    for source, target, *_ in sorted(after - before):
        if source not in added | {asker} or target not in added | chosen:
            model.blame("AG3", f"a patch of {asker} adds the edge {source} -> {target}")
    for name in sorted(added):
        if new.nodes[name].type in ("human", "agent") or not new.incoming[name]:
            model.blame("AG3", f"a patch of {asker} adds {name}, which asks, or comes after nothing")
    for name in sorted(old.nodes.keys() & new.nodes.keys()):
        was, now = old.nodes[name], new.nodes[name]
        if (was.type, was.config, was.join, was.when, was.on_failure, was.effect, was.compensator) != (
            now.type,
            now.config,
            now.join,
            now.when,
            now.on_failure,
            now.effect,
            now.compensator,
        ):
            model.blame("AG3", f"a patch of {asker} changes {name}")


def _edges(graph: Graph) -> set[tuple[str, str, int, bool, bool]]:
    return {
        (edge.source, edge.target, edge.common, edge.named, edge.required)
        for edges in graph.incoming.values()
        for edge in edges
    }
