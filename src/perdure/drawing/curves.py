"""The lines of the arrows, as curves through their bends. Lines bend between layers and run straight inside a layer, so
that none passes through a box.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from perdure.drawing.layout_plan import Plan

Point = tuple[float, float]
_PORT_STEP = 18.0
_PORT_MARGIN = 16.0
_SNAP = 30.0
"""How far from the middle of a box an arrow may arrive to be straight."""
_MOST_POINTS = 30_000
"""How many points are drawn; beyond that, arrows that share their way are drawn from where they part."""
_NUDGE = 5.0
"""How far any arrow may be moved to be straight; less than a third of the step between two."""


class Route(msgspec.Struct, frozen=True):
    """A line of cubic curves: the start, then for each curve two control points and its end. The head is at the end."""

    start: Point
    curves: tuple[tuple[Point, Point, Point], ...]

    @property
    def end(self) -> Point:
        return self.curves[-1][2]

    def points(self) -> list[Point]:
        return [self.start, *(point for curve in self.curves for point in curve)]

    def moved(self, move: Callable[[Point], Point]) -> Route:
        return Route(move(self.start), tuple([(move(a), move(b), move(c)) for a, b, c in self.curves]))


class _Pen:
    def __init__(self, start: Point) -> None:
        self.start = self.at = start
        self.curves: list[tuple[Point, Point, Point]] = []

    def line(self, to: Point) -> None:
        if to != self.at:
            self.curves.append((self.at, to, to))
            self.at = to

    def bend(self, to: Point) -> None:
        """Draw an S along the arrows' direction."""
        (x, y), (end, bottom) = self.at, to
        if x == end:
            self.line(to)
            return
        half = (bottom - y) / 2
        self.curve((x, y + half), (end, bottom - half), to)

    def curve(self, first: Point, second: Point, to: Point) -> None:
        self.curves.append((first, second, to))
        self.at = to

    def route(self) -> Route:
        return Route(self.start, tuple(self.curves))


def draw_routes(plan: Plan) -> list[Route]:
    ports = _find_ports(plan)
    shared = _find_shared(plan)
    routes = []
    for number, wire in enumerate(plan.wires):
        if wire.source == wire.target:
            routes.append(_draw_loop(plan, number))
        elif number not in plan.chains:
            routes.append(_draw_straight(plan, number))
        elif number in plan.turned:
            routes.append(_draw_up(plan, number))
        else:
            routes.append(_draw_down(plan, number, ports, shared.get(number, 0)))
    return routes


def _find_shared(plan: Plan) -> dict[int, int]:
    """How many bends of a wire another one draws already; none unless there would be too many points."""
    if sum(len(chain.path) for chain in plan.chains.values()) <= _MOST_POINTS:
        return {}
    shared: dict[int, int] = {}
    drawn: dict[int, int] = {}  # the first bend names the trunk
    for number, chain in sorted(plan.chains.items(), key=lambda pair: (len(pair[1].path), pair[0])):
        if number not in plan.turned and len(chain.path) > 2:
            shared[number] = drawn.get(chain.path[1], 0)
            drawn[chain.path[1]] = len(chain.path) - 2
    return shared


def _top(plan: Plan, box: int) -> float:
    one = plan.vertices[box]
    return plan.tops[one.rank] + (plan.depths[one.rank] - one.depth) / 2


def _middle(plan: Plan, box: int) -> float:
    rank = plan.vertices[box].rank
    return plan.tops[rank] + plan.depths[rank] / 2


# -- where arrows touch boxes ------------------------------------------------------------------------------------------


def _find_ports(plan: Plan) -> dict[tuple[int, int], float]:
    """(box, next vertex on the way) to the place on its side. Arrows that share their way share their port."""
    out: dict[int, set[int]] = {}
    into: dict[int, set[int]] = {}
    for number, chain in plan.chains.items():
        if number not in plan.turned:
            out.setdefault(chain.path[0], set()).add(chain.path[1])
            into.setdefault(chain.path[-1], set()).add(chain.path[-2])
    ports: dict[tuple[int, int], float] = {}
    for box, others in out.items():
        _spread(plan, box, others, ports)
    for box, others in into.items():
        if len(others) > 1:
            _spread(plan, box, others, ports)
            continue
        (other,) = others
        wish = ports.get((other, box), plan.where[other])
        middle = plan.where[box]
        near = abs(wish - middle) <= min(_SNAP, plan.vertices[box].across / 2 - _PORT_MARGIN)
        ports[box, other] = wish if near else middle
    for box, other in list(ports):
        wish = ports.get((other, box), plan.where[other])
        if abs(wish - ports[box, other]) <= _NUDGE:
            ports[box, other] = wish
    return ports


def _spread(plan: Plan, box: int, others: set[int], ports: dict[tuple[int, int], float]) -> None:
    ordered = sorted(others, key=lambda vertex: (plan.where[vertex], vertex))
    room = max(plan.vertices[box].across - 2 * _PORT_MARGIN, 0.0)
    step = min(_PORT_STEP, room / max(len(ordered) - 1, 1))
    first = plan.where[box] - step * (len(ordered) - 1) / 2
    for number, other in enumerate(ordered):
        ports[box, other] = first + step * number


# -- kinds of lines ----------------------------------------------------------------------------------------------------


def _draw_down(plan: Plan, number: int, ports: dict[tuple[int, int], float], shared: int) -> Route:
    path = plan.chains[number].path
    source, target = path[shared], path[-1]
    rank = plan.vertices[source].rank
    if shared:
        pen = _Pen((plan.where[source], plan.tops[rank] + plan.depths[rank]))
    else:
        x = ports[source, path[1]]
        pen = _Pen((x, _top(plan, source) + plan.vertices[source].depth))
        pen.line((x, plan.tops[rank] + plan.depths[rank]))
    for vertex in path[shared + 1 : -1]:
        rank, x = plan.vertices[vertex].rank, plan.where[vertex]
        pen.bend((x, plan.tops[rank]))
        pen.line((x, plan.tops[rank] + plan.depths[rank]))
    x = ports[target, path[-2]]
    pen.bend((x, plan.tops[plan.vertices[target].rank]))
    pen.line((x, _top(plan, target)))
    return pen.route()


def _draw_up(plan: Plan, number: int) -> Route:
    """A line out at the side of the lower box, up beside the others, in at the side of the upper one."""
    wire, path = plan.wires[number], plan.chains[number].path
    upper, lower = path[0], path[-1]
    vertices = plan.vertices
    side = plan.where[lower] + vertices[lower].across / 2
    lane = side + plan.lanes[number, lower]
    middle = _middle(plan, lower)
    pen = _Pen((side, middle))
    pen.curve((lane, middle), (lane, middle), (lane, plan.tops[vertices[lower].rank]))
    for vertex in reversed(path[1:-1]):
        rank, x = vertices[vertex].rank, plan.where[vertex]
        pen.bend((x, plan.tops[rank] + plan.depths[rank]))
        pen.line((x, plan.tops[rank]))
    side = plan.where[upper] + vertices[upper].across / 2
    lane = side + plan.lanes[number, upper]
    rank, middle = vertices[upper].rank, _middle(plan, upper)
    pen.bend((lane, plan.tops[rank] + plan.depths[rank]))
    pen.curve((lane, middle), (lane, middle), (side, middle))
    assert upper == wire.target
    return pen.route()


def _draw_loop(plan: Plan, number: int) -> Route:
    box = plan.wires[number].source
    side = plan.where[box] + plan.vertices[box].across / 2
    far = side + plan.lanes[number, box] * 1.25
    middle, reach = _middle(plan, box), min(plan.vertices[box].depth * 0.28, 14.0)
    pen = _Pen((side, middle + reach))
    pen.curve((far, middle + reach * 1.2), (far, middle - reach * 1.2), (side, middle - reach))
    return pen.route()


def _draw_straight(plan: Plan, number: int) -> Route:
    """A straight line for an arrow too long to be led around everything."""
    wire = plan.wires[number]
    start = (plan.where[wire.source], _top(plan, wire.source) + plan.vertices[wire.source].depth)
    end = (plan.where[wire.target], _top(plan, wire.target))
    pen = _Pen(start)
    pen.line(end)
    return pen.route()
