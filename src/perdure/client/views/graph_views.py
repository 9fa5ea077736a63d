"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from perdure.client.views.general_views import Validated

ArrowKind = Literal["plain", "choice", "failure", "back"]


class Rectangle(TypedDict):
    x: float
    y: float
    width: float
    height: float


class Line(TypedDict):
    """A line of cubic curves."""

    start: list[float]
    curves: list[list[list[float]]]
    """For each curve two control points and its end; each point is `[x, y]`."""


class GraphNode(TypedDict):
    id: str
    type: str
    detail: str
    """What the node is about: a function, an address, the approvers."""
    notes: list[str]
    compensated: bool
    """Whether the node has a compensator."""
    place: Rectangle | None
    """Null in a closed stack."""
    stack: str | None
    """The stack the node belongs to."""


GraphEdge = TypedDict(
    "GraphEdge",
    {"from": str, "to": str, "kind": ArrowKind, "label": str | None, "label_place": Rectangle | None, "line": Line},
)


class GraphStack(TypedDict):
    """Twelve nodes or more that have the same type and detail and stand between the same neighbours."""

    id: str
    nodes: list[str]
    place: Rectangle | None
    """Null while the stack is open."""


class Graph(TypedDict):
    hash: str
    name: str
    description: str
    direction: Literal["down", "right"]
    width: float
    height: float
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    """An edge of a closed stack names the stack."""
    stacks: list[GraphStack]


class ValidatedWith(Validated):
    """What compiling a definition gave, with what else was asked for."""

    definition: NotRequired[dict[str, Any] | None]
    graph: NotRequired[Graph | None]
