"""Handlers that ask people: what was asked and has no yes guards what comes after, as an approval of its own does (rule 28).

What a handler asks is known only once it has. From then on, and until the answer is a yes or the handler has made something of a
no, nobody leads the run around it. Reads state, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from perdure.kernel.lifecycle import N
from perdure.kernel.state import Activation, State
from perdure.kernel.values import steps_of
from perdure.model.ir import IR, Node


def lacks_yes(activation: Activation) -> bool:
    """Whether its handler asked for an approval that was not given."""
    steps = steps_of(activation.checkpoint)
    answers = (steps.get(ask.name) for ask in activation.asks.values() if ask.kind == "approval")
    return any(not isinstance(answer, dict) or answer.get("decision") != "approve" for answer in answers)


def check(state: State, old: IR, new: IR, undone: set[int]) -> Iterator[str]:
    """The reasons against a patch that changes a node whose handler has asked people and has no yes, or lets something behind it run
    without it. `undone`: nodes whose outcome does not stay."""
    asking = {activation.node for activation in state.activations.values() if _waits(activation, undone)}
    for index in sorted(asking):
        before, after = old.nodes[index], _node(new, index)
        if before is not None and (after is None or _manner(before) != _manner(after)):
            yield f"{before.id!r} has asked people and has no yes: it stays as it is until then; rerun instead"
    for index in sorted(_behind(old, asking) - asking):
        before, after = old.nodes[index], _node(new, index)
        if before is None or after is None:
            continue
        was, now = _sources(old, before), _sources(new, after)
        if before.join != after.join or was - now or (after.join.at_least is not None and was != now):
            yield f"{before.id!r} comes after a node that has asked people and has no yes; it would run without it"


def _waits(activation: Activation, undone: set[int]) -> bool:
    if not any(ask.kind == "approval" for ask in activation.asks.values()):
        return False
    if activation.state in (N.COMPLETED, N.COMPENSATED):  # what is undone is asked again
        return activation.state is N.COMPENSATED or activation.node in undone
    return lacks_yes(activation)


def _manner(node: Node) -> tuple[object, ...]:
    """What says whom the node asks, and where it leads."""
    asks = node.type, node.config, node.config_ref, node.type_url, node.item, node.effect
    return *asks, node.join, node.when, node.branch, node.loop, node.on_failure, node.failure_path, node.rejection_path


def _behind(ir: IR, nodes: set[int]) -> set[int]:
    found, waiting = set[int](), list(nodes)
    while waiting:
        node = _node(ir, waiting.pop())
        for number in node.edges_out if node is not None else ():
            target = ir.edges[number].target
            if target not in found:
                found.add(target)
                waiting.append(target)
    return found


def _sources(ir: IR, node: Node) -> set[int]:
    return {ir.edges[number].source for number in node.edges_in}


def _node(ir: IR, index: int) -> Node | None:
    return ir.nodes[index] if index < len(ir.nodes) else None
