"""The data that the steps of a layout hand on: wires, vertices in layers, and where they stand."""

from __future__ import annotations

from typing import Literal

import msgspec

Size = tuple[float, float]


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """An arrow as the layout sees it."""

    source: int
    target: int
    back: bool = False
    """Whether the wire leads up again, beside the others."""
    label: Size | None = None


class Vertex(msgspec.Struct):
    """A box, a label or a bend. `across` is its size along the layer, `depth` along the arrows."""

    across: float = 0.0
    depth: float = 0.0
    kind: Literal["box", "label", "bend"] = "bend"
    beside: float = 0.0
    """Room after the vertex for arrows, where loops go back."""
    clear: float = 0.0
    """How deep the vertex's layer must be, if deeper than itself."""
    rank: int = 0


class Chain(msgspec.Struct):
    """The way of a wire through the layers, top to bottom: a box, bends and a label, a box."""

    path: list[int]
    label: int | None = None


class Plan(msgspec.Struct):
    """The state of a layout, handed from step to step."""

    wires: list[Wire]
    turned: set[int]
    """Wires that lead up: their chain runs from their target to their source."""
    vertices: list[Vertex] = []
    chains: dict[int, Chain] = {}
    pieces: list[tuple[int, int, bool]] = []
    """Every piece of a chain between two layers, once: (upper, lower, whether it leads up)."""
    where: list[float] = []
    tops: list[float] = []
    depths: list[float] = []
    lanes: dict[tuple[int, int], float] = {}
    """(wire, box) to how far beside the box a wire that leads up passes."""
