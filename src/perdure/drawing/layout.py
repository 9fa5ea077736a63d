"""Places for boxes, labels and arrows: a layered drawing without any other program.

Boxes go into layers (`ranks`), long arrows get bends and labels places of their own, layers are ordered so that few
arrows cross (`order`), and everything is put near what it is linked to (`places`). Only sizes come in and only
coordinates go out; words, colours and formats belong to other files. The work is done as if arrows led down; a drawing
to the right is the same one with its axes exchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from perdure.drawing.coordinates import Extent, Tie, place, straighten
from perdure.drawing.curves import Point, Route, draw_routes
from perdure.drawing.layout_plan import Chain, Plan, Size, Vertex, Wire
from perdure.drawing.order import Layers, Segment
from perdure.drawing.ranks import Link, find_backward, rank

Direction = Literal["down", "right"]

BOX_GAP, LABEL_GAP, BEND_GAP = 28.0, 14.0, 16.0
"""The room between neighbours of a layer; the larger of the two wishes holds."""
LAYER_GAP, NARROW_GAP, WIDEST_GAP = 42.0, 24.0, 110.0
"""The room between layers: usual, beside a layer of labels only, and where arrows go far sideways."""
LANE = 16.0
LOOP = 30.0
"""How far an arrow from a box to itself reaches out."""
MARGIN = 20.0
MOST_BENDS = 40_000
"""How many bends there may be; beyond that, the longest arrows are drawn straight, behind the boxes."""
_READABLE: Size = (1000.0, 2400.0)


class Place(msgspec.Struct, frozen=True):
    """A rectangle: its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    width: float
    height: float
    direction: Direction
    boxes: tuple[Place, ...]
    labels: tuple[Place | None, ...]
    routes: tuple[Route, ...]
    crossings: int = 0


def lay_out(sizes: Sequence[Size], wires: Sequence[Wire], *, direction: Direction | None = None) -> Layout:
    """The layout of these boxes and wires; without a direction, in the one that is easier to read."""
    plan = Plan(list(wires), _find_turned(len(sizes), wires))
    links = [
        Link(upper, lower, 1 if wire.label is None else 2)
        for number, wire in enumerate(wires)
        if wire.source != wire.target
        for upper, lower in [_ends(plan, number)]
    ]
    ranks = rank(len(sizes), links)
    if direction is None:
        direction = _choose_direction(sizes, ranks)
    _add_boxes(plan, sizes, ranks, direction)
    _add_chains(plan, direction)
    _add_loops(plan, direction)
    segments, ties = _connect(plan)
    layers = Layers([vertex.rank for vertex in plan.vertices], segments)
    crossings = layers.untangle()
    extents = _extents(plan)
    plan.where = place(layers.rows, extents, ties)
    straighten(layers.rows, extents, _find_lines(plan), plan.where)
    least = min((at - extent.before for at, extent in zip(plan.where, extents, strict=True)), default=0.0)
    plan.where = [at - least for at in plan.where]
    _stack(plan, layers.rows)
    return _finish(plan, len(sizes), direction, crossings)


def _find_turned(count: int, wires: Sequence[Wire]) -> set[int]:
    pairs = [(wire.target, wire.source) if wire.back else (wire.source, wire.target) for wire in wires]
    backward = find_backward(count, pairs)
    return {
        number for number, wire in enumerate(wires) if wire.back != (number in backward) and wire.source != wire.target
    }


def _ends(plan: Plan, number: int) -> tuple[int, int]:
    wire = plan.wires[number]
    return (wire.target, wire.source) if number in plan.turned else (wire.source, wire.target)


def _choose_direction(sizes: Sequence[Size], ranks: list[int]) -> Direction:
    rows: list[list[Size]] = [[] for _ in range(max(ranks, default=0) + 1)]
    for size, row in zip(sizes, ranks, strict=True):
        rows[row].append(size)
    down = (
        max(sum(width + BOX_GAP for width, _ in row) for row in rows),
        sum(max((height for _, height in row), default=20.0) + LAYER_GAP for row in rows),
    )
    right = (
        sum(max((width for width, _ in row), default=60.0) + LAYER_GAP for row in rows),
        max(sum(height + BOX_GAP for _, height in row) for row in rows),
    )
    costs = [max(width / _READABLE[0], height / _READABLE[1]) for width, height in (down, right)]
    return "down" if costs[0] <= costs[1] * 1.2 else "right"


# -- vertices ----------------------------------------------------------------------------------------------------------


def _turn(size: Size, direction: Direction) -> Size:
    """The size as (across, depth)."""
    return size if direction == "down" else (size[1], size[0])


def _add_boxes(plan: Plan, sizes: Sequence[Size], ranks: list[int], direction: Direction) -> None:
    for size, row in zip(sizes, ranks, strict=True):
        across, depth = _turn(size, direction)
        plan.vertices.append(Vertex(across, depth, "box", rank=row))


def _add_chains(plan: Plan, direction: Direction) -> None:
    """Add bends for every layer a wire passes. Plain wires of one box share theirs: a trunk with branches."""
    trunks: dict[int, list[int]] = {}
    spans = []
    for number, wire in enumerate(plan.wires):
        if wire.source != wire.target:
            upper, lower = _ends(plan, number)
            spans.append((plan.vertices[lower].rank - plan.vertices[upper].rank, number))
    for span, number in sorted(spans):
        upper, lower = _ends(plan, number)
        top = plan.vertices[upper].rank
        wire = plan.wires[number]
        if wire.label is None and number not in plan.turned:
            trunk = trunks.setdefault(upper, [])
            if len(plan.vertices) + span - len(trunk) > MOST_BENDS:
                continue
            while len(trunk) < span - 1:
                trunk.append(_add(plan, Vertex(rank=top + len(trunk) + 1)))
            plan.chains[number] = Chain([upper, *trunk[: span - 1], lower])
            continue
        if len(plan.vertices) + span > MOST_BENDS:
            continue
        chain = Chain([upper])
        middle = top + (span // 2 if number in plan.turned else 1)
        for row in range(top + 1, top + span):
            vertex = Vertex(rank=row)
            if row == middle and wire.label is not None:
                across, depth = _turn(wire.label, direction)
                vertex = Vertex(across, depth, "label", rank=row)
                chain.label = len(plan.vertices)
            chain.path.append(_add(plan, vertex))
        chain.path.append(lower)
        plan.chains[number] = chain


def _add(plan: Plan, vertex: Vertex) -> int:
    plan.vertices.append(vertex)
    return len(plan.vertices) - 1


def _add_loops(plan: Plan, direction: Direction) -> None:
    """Make room beside boxes for the arrows that lead up, and for those from a box to itself."""
    for number, wire in enumerate(plan.wires):
        if number in plan.turned and number in plan.chains:
            for end in (wire.source, wire.target):
                plan.vertices[end].beside += LANE
                plan.lanes[number, end] = plan.vertices[end].beside
    for number, wire in enumerate(plan.wires):
        if wire.source == wire.target:
            box = plan.vertices[wire.source]
            box.beside += LOOP
            plan.lanes[number, wire.source] = box.beside
            if wire.label is not None:
                across, depth = _turn(wire.label, direction)
                box.beside += across + 4
                box.clear = max(box.clear, depth)


def _connect(plan: Plan) -> tuple[list[Segment], list[Tie]]:
    segments: dict[tuple[int, int, bool], Segment] = {}
    ties: list[Tie] = []
    for number, chain in plan.chains.items():
        aside = number in plan.turned
        for lower, upper in pairwise(reversed(chain.path)):
            if (upper, lower, aside) in segments:
                break  # from here up the way is shared
            ends = (plan.vertices[upper], plan.vertices[lower])
            lean = [0.3 if aside and end.kind == "box" else 0.0 for end in ends]
            offset = [
                end.across / 2 + plan.lanes[number, vertex] if aside and end.kind == "box" else 0.0
                for end, vertex in zip(ends, (upper, lower), strict=True)
            ]
            boxed = "box" in (ends[0].kind, ends[1].kind)
            segments[upper, lower, aside] = Segment(upper, lower, *lean)
            weight = _weigh(*ends) * (0.1 if aside and boxed else 1.0)
            ties.append(Tie(upper, lower, offset[0], offset[1], weight))
    plan.pieces = list(segments)
    return list(segments.values()), ties


def _weigh(upper: Vertex, lower: Vertex) -> float:
    """How much two neighbours want to stand in one line: bends most, then a label over what it leads to."""
    if "box" not in (upper.kind, lower.kind):
        return 8.0
    if upper.kind == "label":
        return 6.0
    return 1.0 if lower.kind in (upper.kind, "label") else 2.0


def _find_lines(plan: Plan) -> list[list[int]]:
    """Vertices that follow each other and nothing else: bends of one arrow, or a box and the only one after it."""
    below: dict[int, list[int]] = {}
    above: dict[int, list[int]] = {}
    for upper, lower, aside in plan.pieces:
        if not aside or "box" not in (plan.vertices[upper].kind, plan.vertices[lower].kind):
            below.setdefault(upper, []).append(lower)
            above.setdefault(lower, []).append(upper)
    after: dict[int, int] = {}
    for upper, lowers in below.items():
        bends = [lower for lower in lowers if plan.vertices[lower].kind == "bend"]
        if plan.vertices[upper].kind == "bend" and bends:
            after[upper] = bends[0]
        elif len(lowers) == 1:
            (lower,) = lowers
            if len(above[lower]) == 1:
                after[upper] = lower
    heads = sorted(set(after) - set(after.values()))
    lines = []
    for head in heads:
        line = [head]
        while line[-1] in after:
            line.append(after[line[-1]])
        lines.append(line)
    return lines


_GAPS = {"box": BOX_GAP, "label": LABEL_GAP, "bend": BEND_GAP}


def _extents(plan: Plan) -> list[Extent]:
    extents = []
    for vertex in plan.vertices:
        gap = _GAPS[vertex.kind] / 2
        extents.append(Extent(vertex.across / 2 + gap, vertex.across / 2 + vertex.beside + gap))
    return extents


def _stack(plan: Plan, rows: list[list[int]]) -> None:
    """Put the layers below each other, further apart where arrows go far sideways."""
    vertices, where = plan.vertices, plan.where
    sideways = [0.0] * len(rows)
    for upper, lower, _ in plan.pieces:
        above = vertices[upper].rank
        sideways[above] = max(sideways[above], abs(where[upper] - where[lower]))
    top = 0.0
    for number, row in enumerate(rows):
        depth = max((max(vertices[vertex].depth, vertices[vertex].clear) for vertex in row), default=0.0)
        plan.tops.append(top)
        plan.depths.append(depth)
        beside = rows[number + 1] if number + 1 < len(rows) else []
        small = any(all(vertices[vertex].kind != "box" for vertex in one) for one in (row, beside))
        gap = NARROW_GAP if small else LAYER_GAP
        top += depth + min(max(gap, sideways[number] * 0.14), WIDEST_GAP)


# -- the end -----------------------------------------------------------------------------------------------------------


def _finish(plan: Plan, boxes: int, direction: Direction, crossings: int) -> Layout:
    places = [_rectangle(plan, number) for number in range(boxes)]
    labels: list[tuple[float, float, float, float] | None] = []
    for number, wire in enumerate(plan.wires):
        chain = plan.chains.get(number)
        if chain is not None and chain.label is not None:
            labels.append(_rectangle(plan, chain.label))
        elif wire.label is not None and wire.source == wire.target:
            labels.append(_label_of_loop(plan, number, direction))
        else:
            labels.append(None)
    routes = draw_routes(plan)
    far = [rectangle for rectangle in [*places, *labels] if rectangle is not None]
    ends = [(x + w, y + h) for x, y, w, h in far]
    ends += [point for route in routes for point in route.points()]
    across = max([x for x, _ in ends], default=0.0)
    depth = max([y for _, y in ends], default=0.0)
    width, height = _turn((across + 2 * MARGIN, depth + 2 * MARGIN), direction)
    return Layout(
        width=round(width, 1),
        height=round(height, 1),
        direction=direction,
        boxes=tuple(_as_place(one, direction) for one in places),
        labels=tuple(None if one is None else _as_place(one, direction) for one in labels),
        routes=tuple([route.moved(_AS_POINT[direction]) for route in routes]),
        crossings=crossings,
    )


def _rectangle(plan: Plan, vertex: int) -> tuple[float, float, float, float]:
    one = plan.vertices[vertex]
    top = plan.tops[one.rank] + (plan.depths[one.rank] - one.depth) / 2
    return plan.where[vertex] - one.across / 2, top, one.across, one.depth


def _label_of_loop(plan: Plan, number: int, direction: Direction) -> tuple[float, float, float, float]:
    wire = plan.wires[number]
    box = plan.vertices[wire.source]
    across, depth = _turn(wire.label or (0.0, 0.0), direction)
    middle = plan.tops[box.rank] + plan.depths[box.rank] / 2
    left = plan.where[wire.source] + box.across / 2 + plan.lanes[number, wire.source]
    return left, middle - depth / 2, across, depth


def _as_place(rectangle: tuple[float, float, float, float], direction: Direction) -> Place:
    x, y, width, height = rectangle
    (x, y), (width, height) = _turn((x + MARGIN, y + MARGIN), direction), _turn((width, height), direction)
    return Place(*(round(value, 1) for value in (x, y, width, height)))


def _as_point_down(point: Point) -> Point:
    return round(point[0] + MARGIN, 1), round(point[1] + MARGIN, 1)


def _as_point_right(point: Point) -> Point:
    return round(point[1] + MARGIN, 1), round(point[0] + MARGIN, 1)


_AS_POINT = {"down": _as_point_down, "right": _as_point_right}
"""By direction: a large drawing has a hundred thousand points."""
