"""What an activation builds upon (rule 13), and that a new generation does it again first (rule 26)."""

from __future__ import annotations

from perdure.invariants.model import ENDED, ERROR, OPEN, TAKEN, Act, Key, Model


def find_lacking(model: Model, act: Act) -> Act | None:
    """An activation before this one that has not ended. In the first generation all had."""
    if model.generation == 1 or act.item is not None:
        return None
    before, seen = [act], set[Key]()
    while before:
        one = before.pop()
        graph = model.graphs[one.graph]
        for edge in graph.incoming.get(one.node, ()):
            if one.edges.get(edge.source) not in (TAKEN, ERROR):
                continue
            if edge.streams and one is act and (act.state not in ENDED or act.ran == model.generation):
                continue  # it reads while its source yields, and may end before it
            found = model.latest(graph, edge.source, one.scope[: edge.common])
            if found is None or found.key in seen or found.key in model.whole:
                continue
            if found.state == "pending" or found.state in OPEN:
                return found
            seen.add(found.key)
            before.append(found)
    model.whole |= seen
    return None


def look(model: Model, act: Act, what: str) -> None:
    found = find_lacking(model, act)
    if found is not None:
        model.blame("rule 13", f"{act.place} is {what} while {found.place}, upon which it builds, is {found.state}")


def settled(model: Model) -> None:
    """Check that an append leaves no outcome unrouted that could be routed."""
    for act in model.acts.values() if model.generation > 1 else ():
        if is_unrouted(act) and not model.closing(act) and not model.closed(act) and not find_lacking(model, act):
            model.blame("rule 26", f"{act.place} is {act.state}, all it builds upon is there, and it is not routed")


def is_unrouted(act: Act) -> bool:
    ended = act.state == "completed" or (act.state == "failed" and act.handled)
    return ended and not act.routed and act.item is None
