"""The graph under construction: its nodes, the edges into them, and where in branches and loops each stands.

It must not know how values are written: that is for handles, and for the builder, which makes the graph.
"""

from __future__ import annotations

from typing import Any

_NODE_ORDER = ("id", "type", "config", "dependencies", "when", "join")


class Link:
    """An edge into a node."""

    __slots__ = ("named", "required")

    def __init__(self, *, required: bool = False, named: bool = False) -> None:
        self.required = required
        self.named = named
        """A branch or a path names this edge."""


class Arm:
    """One path of a branch, a rejection or a failure; `of` is the node that chooses it."""

    __slots__ = ("nodes", "of", "parent")

    def __init__(self, of: Node, parent: Arm | None) -> None:
        self.of = of
        self.parent = parent
        self.nodes: list[Node] = []

    def contains(self, node: Node) -> bool:
        arm = node.arm
        while arm is not None and arm is not self:
            arm = arm.parent
        return arm is self


class Body:
    """The body of a loop."""

    __slots__ = ("nodes", "parent")

    def __init__(self, parent: Body | None) -> None:
        self.parent = parent
        self.nodes: list[Node] = []
        """All nodes made inside, those of inner loops and arms included."""


class Node:
    __slots__ = ("arm", "body", "id", "links", "may_skip", "spec")

    def __init__(self, id: str, spec: dict[str, Any], arm: Arm | None, body: Body | None) -> None:
        self.id = id
        self.spec = spec
        self.links: dict[Node, Link] = {}
        self.arm = arm
        self.body = body
        self.may_skip = False
        """The node may be skipped although its arm was chosen."""

    def link(self, source: Node, *, required: bool = False, named: bool = False) -> None:
        found = self.links.get(source)
        if found is None:
            self.links[source] = Link(required=required, named=named)
        else:
            found.required, found.named = found.required or required, found.named or named

    def definition(self) -> dict[str, Any]:
        needs: list[Any] = []
        for source, link in self.links.items():
            if link.required and len(self.links) > 1:
                needs.append({"node": source.id, "required": True})
            elif not link.named:
                needs.append(source.id)
        known: dict[str, Any] = {"id": self.id, **self.spec}
        if needs:
            known["dependencies"] = needs
        return {key: known[key] for key in (*_NODE_ORDER, *known) if key in known}
