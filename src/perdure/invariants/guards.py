"""E6 as a journal shows it: what could only run after an approval, when the graph was patched, does not run without it.

Simpler than the proof the kernel makes, and blind where a branch reads the decision: a node counts as guarded when no path leads
to it but by an approval that was given.
"""

from __future__ import annotations

from perdure.invariants.graph import Graph
from perdure.invariants.model import OPEN, Act, Model
from perdure.model.ir import Node

_HAS_RUN = OPEN | {"completed", "failed", "compensated"}


def remember(model: Model) -> None:
    """Note what waits behind an approval before the graph changes: it must go on waiting."""
    graph = model.graph
    for person in graph.people:
        if _is_given(model, person):
            continue
        reached = _without(model, graph, person)
        for name in graph.nodes.keys() - reached:
            if not _has_run(model, name):
                model.guarded.setdefault(name, set()).add(person)


def compare(model: Model, old: Graph, new: Graph) -> None:
    """Check that a patch keeps whom each approval asks, and what counts as a yes."""
    for name, before in old.nodes.items():
        after = new.nodes.get(name)
        asked = before.type == "human" and after is not None and after.type == "human" and not _is_given(model, name)
        if asked and after is not None and _asks(before) != _asks(after):
            model.blame("E6", f"a patch changes whom the approval {name} asks, or what counts as a yes")


def _asks(node: Node) -> tuple[str | None, dict[str, object]]:
    config = dict(node.config or {})
    for shown in ("title", "show", "approval_ui_url"):
        config.pop(shown, None)
    return node.config_ref, config


def _without(model: Model, graph: Graph, person: str) -> set[str]:
    """The nodes that paths lead to when this person approves nothing. A node that has begun leads on,
    whatever a patch put before it since: in a loop, through the looping node, to all of that loop."""
    begun = {act.node for act in model.acts.values() if _was_let(act)}
    found = [name for name, edges in graph.incoming.items() if not edges or name in begun]
    reached, failed = set(found), set[str]()
    while found:
        name = found.pop()
        for edge in graph.outgoing[name]:
            if edge.target not in reached and (name != person or edge.target in graph.people[person]):
                reached.add(edge.target)
                found.append(edge.target)
        head = graph.heads.get(name)  # a loop that goes back brings its head, whatever that depends on
        if head is not None and head not in reached:
            reached.add(head)
            found.append(head)
        after = [name] if name in graph.breakable else []
        while after:  # the node fails, and so does what it leads to, up to one that handles the failure
            for edge in graph.outgoing[after.pop()]:
                if edge.target in failed:
                    continue
                failed.add(edge.target)
                if edge.target in graph.breakable and edge.target not in graph.handled:
                    after.append(edge.target)
                for target in graph.handled.get(edge.target, frozenset()) - reached:
                    reached.add(target)
                    found.append(target)
    return reached


def _has_run(model: Model, name: str) -> bool:
    act = model.acts.get((name, (), None))
    return act is not None and _was_let(act)


def _was_let(act: Act) -> bool:
    return act.state in _HAS_RUN and not act.unlet


def _is_given(model: Model, person: str) -> bool:
    act = model.acts.get((person, (), None))
    return act is not None and act.state in ("completed", "compensated") and not act.rejected


def look(model: Model, act: Act) -> None:
    """Check an activation that is about to run."""
    for person in sorted(model.guarded.get(act.node, ())):
        asked = model.acts.get((person, (), None))
        if not _is_given(model, person):
            state = "never asked" if asked is None else "rejected" if asked.rejected else asked.state
            model.blame(
                "E6", f"{act.place} ran only after the approval {person}, which is {state}, and a patch lets it run"
            )


def pass_by(model: Model, act: Act) -> None:
    """Check a node that an operator discards as `continue`: that gives no approval (rule 28)."""
    node = model.graph_of(act).nodes.get(act.node)
    if node is not None and "human" in (node.type, None if node.item is None else node.item.type):
        model.blame("E6", f"{act.place} is an approval that was not given, and is discarded as continue")
