"""Which activation lost which race: its winner cancelled it (rule 11), or it was skipped for want of one that lost (rule 7)."""

from __future__ import annotations

from perdure.kernel.edges import governing_ir, latest
from perdure.kernel.lifecycle import SKIPPED, N
from perdure.kernel.state import Activation, Key, State
from perdure.model.ir import Node


def find_winners(state: State, loser: Activation) -> tuple[Key, ...]:
    """The joins that an activation is being cancelled for: they have what they need, and have not begun."""
    found: dict[Key, None] = {}
    for ir in dict.fromkeys(
        (governing_ir(state, loser), len(state.irs) - 1)
    ):  # a join around its loop may have a later one
        nodes = state.irs[ir].nodes
        node = nodes[loser.node] if loser.node < len(nodes) else None
        region = None if node is None else node.region
        while node is not None and region is not None:
            join = state.node_in(ir, region)
            shared = sum(1 for ours, theirs in zip(join.loops, node.loops, strict=False) if ours == theirs)
            winner = latest(state, region, loser.scope[:shared], ir)
            if winner is not None and governing_ir(state, winner) == ir and _has_won(winner, join):
                found[winner.key] = None
            region = join.region
    return tuple(found)


def _has_won(activation: Activation, join: Node) -> bool:
    needed = join.join.at_least if join.join.cancel_rest else None
    undecided = activation.state is N.PENDING and not activation.fired and not activation.refused
    return undecided and needed is not None and activation.taken >= needed


def find_lost(state: State, skipped: Activation) -> tuple[Key, ...]:
    """The joins that an activation which is being skipped has lost to: its own join would not skip it, had none before it
    lost to them."""
    ir = governing_ir(state, skipped)
    node = state.node_in(ir, skipped.node)
    if node.region is None or skipped.fired or skipped.item >= 0:
        return ()
    edges = [state.irs[ir].edges[number] for number in node.edges_in]
    missing = [edge for edge in edges if skipped.edges.get(edge.source) == SKIPPED]
    losers: dict[Key, list[int]] = {}
    for edge in missing:
        source = latest(state, edge.source, skipped.scope[: edge.common], ir)
        for winner in () if source is None else source.lost:
            losers.setdefault(winner, []).append(edge.source)
    required = {edge.source for edge in missing if edge.required}.difference(losers.get(skipped.key, ()))
    return tuple(winner for winner, sources in losers.items() if _is_why(skipped, node, required, sources))


def _is_why(skipped: Activation, node: Node, required: set[int], losers: list[int]) -> bool:
    """Whether it is these losers for whom the join skips the activation, and not others, or its `when`."""
    if required:
        return required.issubset(losers)
    if node.join.at_least is None:
        return not skipped.taken and not skipped.errors
    open_edges = len(node.edges_in) - len(skipped.edges) + len(losers)
    return skipped.taken < node.join.at_least <= skipped.taken + open_edges
