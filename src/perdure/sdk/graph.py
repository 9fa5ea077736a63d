"""The graph under construction: its nodes, the edges into them, and where in branches and loops each stands.

It must not know how values are written: that is for handles, and for the builder, which makes the graph.
"""

from __future__ import annotations

from typing import Any, NamedTuple

_NODE_ORDER = ("id", "type", "config", "dependencies", "when", "join")


class Flow(NamedTuple):
    """A stream along an edge: the port that it leaves, and the parameter that it enters."""

    port: str
    into: str


class Link:
    """An edge into a node."""

    __slots__ = ("flows", "named", "required")

    def __init__(self, *, required: bool = False, named: bool = False) -> None:
        self.required = required
        self.named = named
        """A branch or a path names this edge."""
        self.flows: list[Flow] = []
        """The streams along it: then it is written among `edges`."""


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
    __slots__ = ("arm", "body", "id", "links", "may_skip", "spec", "yields")

    def __init__(self, id: str, spec: dict[str, Any], arm: Arm | None, body: Body | None) -> None:
        self.id = id
        self.spec = spec
        self.links: dict[Node, Link] = {}
        self.arm = arm
        self.body = body
        self.may_skip = False
        """The node may be skipped although its arm was chosen."""
        self.yields = False
        """Its function yields, so that others can read its stream."""

    def link(self, source: Node, *, required: bool = False, named: bool = False, flow: Flow | None = None) -> None:
        found = self.links.get(source)
        if found is None:
            found = self.links[source] = Link(required=required, named=named)
        else:
            found.required, found.named = found.required or required, found.named or named
        if flow is not None and flow not in found.flows:
            found.flows.append(flow)

    def edges(self) -> list[dict[str, Any]]:
        """The edges into it that carry streams, as a definition has them."""
        return [
            {"from": f"{source.id}.{flow.port}", "to": f"{self.id}.{flow.into}"}
            | ({"required": True} if link.required else {})
            for source, link in self.links.items()
            for flow in link.flows
        ]

    def definition(self) -> dict[str, Any]:
        needs: list[Any] = []
        for source, link in self.links.items():
            if link.flows:
                continue
            if link.required and len(self.links) > 1:
                needs.append({"node": source.id, "required": True})
            elif not link.named:
                needs.append(source.id)
        known: dict[str, Any] = {"id": self.id, **self.spec}
        if needs:
            known["dependencies"] = needs
        return {key: known[key] for key in (*_NODE_ORDER, *known) if key in known}
