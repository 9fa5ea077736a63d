"""The types of pictures: nodes and edges with their places. See `schemas.py`."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET

from perdure.api.schemas.general_schemas import Maybe, Validated, View

ArrowKind = Literal["plain", "choice", "failure", "back"]


class Rectangle(View, frozen=True, kw_only=True):
    x: float
    y: float
    width: float
    height: float


class Line(View, frozen=True, kw_only=True):
    """A line of cubic curves."""

    start: list[float]
    curves: list[list[list[float]]]
    """For each curve two control points and its end; each point is `[x, y]`."""


class GraphNode(View, frozen=True, kw_only=True):
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


class GraphEdge(View, frozen=True, kw_only=True, rename={"from_": "from"}):
    from_: str
    to: str
    kind: ArrowKind
    label: str | None
    label_place: Rectangle | None
    line: Line


class GraphStack(View, frozen=True, kw_only=True):
    """Twelve nodes or more that have the same type and detail and stand between the same neighbours."""

    id: str
    nodes: list[str]
    place: Rectangle | None
    """Null while the stack is open."""


class Graph(View, frozen=True, kw_only=True):
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


class ValidatedWith(Validated, frozen=True, kw_only=True):
    """What compiling a definition gave, with what else was asked for."""

    definition: Maybe[dict[str, Any] | None] = UNSET
    graph: Maybe[Graph | None] = UNSET
