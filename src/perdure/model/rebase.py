"""Renumbering: the same IR with the indexes that a running run already uses.

A patch compiles to a new IR whose indexes follow the new order. State in memory speaks in indexes of the
old ones, so ids that stay keep their number, ids that are gone leave a hole, which an id that comes back
takes again, and new ids come after.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from perdure.model.ir import IR, Branch, Edge, Loop, Node

_last: tuple[IR, tuple[IR, ...], IR] | None = None


def rebase(ir: IR, *bases: IR) -> IR:
    """The IR renumbered. `bases`: every IR the run has had, the oldest first. The last answer is remembered: whether a
    patch is possible, and what it does, is asked one after the other."""
    global _last  # noqa: PLW0603
    last = _last
    if last is not None and last[0] is ir and len(last[1]) == len(bases):
        if all(one is other for one, other in zip(last[1], bases, strict=True)):
            return last[2]
    made = _rebase(ir, bases)
    _last = (ir, bases, made)
    return made


def _rebase(ir: IR, bases: tuple[IR, ...]) -> IR:
    old = {node.id: i for base in bases for i, node in enumerate(base.nodes) if node is not None}
    size = len(bases[-1].nodes)
    new: dict[int, int] = {}
    for i, node in enumerate(ir.nodes):
        if node is None:
            continue
        if node.id in old:
            new[i] = old[node.id]
        else:
            new[i] = size
            size += 1
    if all(i == j for i, j in new.items()) and size == len(ir.nodes):
        return ir
    return _Renumbering(ir, new, size).apply()


class _Renumbering:
    def __init__(self, ir: IR, new: dict[int, int], size: int) -> None:
        self._ir = ir
        self._new = new
        self._size = size
        ends = sorted(range(len(ir.edges)), key=lambda e: self._edge_key(ir.edges[e]))
        self._edge_order = ends
        self._new_edge = {e: position for position, e in enumerate(ends)}

    def _edge_key(self, edge: Edge) -> tuple[bool, int, int]:
        return (edge.kind == "back", self._new[edge.source], self._new[edge.target])

    def apply(self) -> IR:
        ir = self._ir
        nodes: list[Node | None] = [None] * self._size
        for i, node in enumerate(ir.nodes):
            if node is not None:
                nodes[self._new[i]] = self._node(node)
        edges = tuple(
            msgspec.structs.replace(edge, source=self._new[edge.source], target=self._new[edge.target])
            for edge in (ir.edges[e] for e in self._edge_order)
        )
        return msgspec.structs.replace(
            ir, nodes=tuple(nodes), edges=edges, entries=self._nodes(ir.entries), terminals=self._nodes(ir.terminals)
        )

    def _nodes(self, indexes: Iterable[int]) -> tuple[int, ...]:
        return tuple(sorted(self._new[i] for i in indexes))

    def _edges(self, indexes: Iterable[int]) -> tuple[int, ...]:
        return tuple(sorted(self._new_edge[e] for e in indexes))

    def _node(self, node: Node) -> Node:
        # `item` has no indexes of its own: it is no node of the graph.
        return msgspec.structs.replace(
            node,
            loops=tuple(self._new[i] for i in node.loops),  # outermost first, so not sorted
            edges_in=self._edges(node.edges_in),
            edges_out=self._edges(node.edges_out),
            branch=None if node.branch is None else self._branch(node.branch),
            loop=None if node.loop is None else self._loop(node.loop),
            rejection_path=None if node.rejection_path is None else self._nodes(node.rejection_path),
            failure_path=self._nodes(node.failure_path),
            region=None if node.region is None else self._new[node.region],
        )

    def _branch(self, branch: Branch) -> Branch:
        return msgspec.structs.replace(
            branch,
            rules=tuple(
                msgspec.structs.replace(rule, next_nodes=self._nodes(rule.next_nodes)) for rule in branch.rules
            ),
            default=self._nodes(branch.default),
            available=self._nodes(branch.available),
        )

    def _loop(self, loop: Loop) -> Loop:
        return msgspec.structs.replace(
            loop,
            head=self._new[loop.head],
            body=self._nodes(loop.body),
            break_path=None if loop.break_path is None else self._nodes(loop.break_path),
            timeout_path=None if loop.timeout_path is None else self._nodes(loop.timeout_path),
            exits=self._edges(loop.exits),
        )
