"""Places: nothing overlaps, lines pass beside boxes, the same picture is always drawn the same way, and quickly."""

import itertools
import random
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.drawing import plan_layout
from perdure.drawing.layout import lay_out
from perdure.drawing.layout_plan import Wire
from perdure.drawing.order import Layers, Segment
from perdure.drawing.ranks import Link, find_backward, rank
from perdure.model import compile_definition
from tests.drawing.pictures import along, pictures
from tests.processes import python_path

DIRECTIONS = st.sampled_from(["down", "right", None])


def overlap(one, other):
    return (
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
    )


def inside(point, place, margin=0.6):
    x, y = point
    return (
        place.x + margin < x < place.x + place.width - margin and place.y + margin < y < place.y + place.height - margin
    )


@pytest.mark.slow
@given(pictures(), DIRECTIONS)
def test_boxes_and_labels_never_overlap_and_stand_on_the_paper(picture, direction):
    layout = plan_layout(picture, direction=direction)
    placed = [*layout.boxes, *(label for label in layout.labels if label is not None)]
    assert [pair for pair in itertools.combinations(placed, 2) if overlap(*pair)] == []
    for place in placed:
        assert place.x >= 0
        assert place.y >= 0
        assert place.x + place.width <= layout.width
        assert place.y + place.height <= layout.height


@pytest.mark.slow
@given(pictures(), DIRECTIONS)
def test_every_arrow_goes_from_its_source_to_its_target_and_through_no_box(picture, direction):
    layout = plan_layout(picture, direction=direction)
    assert len(layout.routes) == len(picture.arrows)
    for arrow, route in zip(picture.arrows, layout.routes, strict=True):
        points = list(along(route))
        for box, point in ((arrow.source, points[0]), (arrow.target, points[-1])):
            place = layout.boxes[box]
            assert place.x - 0.2 <= point[0] <= place.x + place.width + 0.2
            assert place.y - 0.2 <= point[1] <= place.y + place.height + 0.2
        through = [
            (number, point) for number, place in enumerate(layout.boxes) for point in points if inside(point, place)
        ]
        assert through == []
        assert all(-0.1 <= x <= layout.width + 0.1 and -0.1 <= y <= layout.height + 0.1 for x, y in points)


@given(pictures(), DIRECTIONS)
@pytest.mark.slow
def test_every_label_has_a_place_on_its_line(picture, direction):
    layout = plan_layout(picture, direction=direction)
    for arrow, place, route in zip(picture.arrows, layout.labels, layout.routes, strict=True):
        assert (place is not None) == bool(arrow.label)
        if place is not None and arrow.source != arrow.target:
            assert any(inside(point, place, -0.2) for point in along(route))


@pytest.mark.slow
@given(pictures())
def test_arrows_lead_on_and_ways_back_lead_back(picture):
    layout = plan_layout(picture, direction="down")
    pairs = [(a.target, a.source) if a.kind == "back" else (a.source, a.target) for a in picture.arrows]
    turned = find_backward(len(picture.boxes), pairs)
    for number, (upper, lower) in enumerate(pairs):
        if upper != lower and number not in turned:
            assert layout.boxes[upper].y < layout.boxes[lower].y


@pytest.mark.slow
@given(st.integers(2, 30).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.tuples(*[st.integers(0, n - 1)] * 2)))))
def test_turning_what_leads_back_leaves_no_circle(case):
    count, pairs = case
    backward = find_backward(count, pairs)
    links = [
        Link(*((target, source) if number in backward else (source, target)))
        for number, (source, target) in enumerate(pairs)
        if source != target
    ]
    ranks = rank(count, links)
    assert all(ranks[link.lower] >= ranks[link.upper] + link.length for link in links)
    assert min(ranks) == 0


def test_arrows_are_short_where_they_can_be():
    # The second source waits beside the box it leads to, not at the top.
    links = [Link(0, 1), Link(1, 2), Link(2, 3), Link(4, 3)]
    assert rank(5, links) == [0, 1, 2, 3, 2]


class Forgetful(Layers):
    """Looks at every layer in every step, also where nothing has changed."""

    def _see(self, *numbers):
        self._settled.clear()
        self._counted.clear()
        return super()._see(*numbers)


def test_remembering_which_layers_stand_still_changes_no_order():
    """Layers are settled one by one; what is not looked at again would have stayed as it was."""
    for seed in range(10):
        chance = random.Random(seed)
        ranks = sorted([*range(6), *(chance.randrange(6) for _ in range(34))])
        pairs = [(a, b) for a in range(40) for b in range(40) if ranks[b] == ranks[a] + 1]
        chosen = sorted(chance.sample(pairs, 80))
        made = [kind(list(ranks), [Segment(*pair) for pair in chosen]) for kind in (Layers, Forgetful)]
        assert made[0].untangle() == made[1].untangle()
        assert made[0].rows == made[1].rows


def test_what_need_not_cross_does_not():
    # Two chains whose boxes are listed the other way round in the second layer.
    layout = lay_out([(80, 40)] * 6, [Wire(source=s, target=t) for s, t in [(0, 3), (1, 2), (3, 4), (2, 5)]])
    assert layout.crossings == 0


def test_a_parent_stands_over_the_middle_of_its_children():
    layout = lay_out([(80, 40)] * 4, [Wire(source=0, target=target) for target in (1, 2, 3)], direction="down")
    middles = [place.x + place.width / 2 for place in layout.boxes]
    assert middles[0] == pytest.approx((middles[1] + middles[3]) / 2, abs=1)


def test_what_follows_each_other_alone_stands_in_one_line():
    layout = lay_out(
        [(80, 40), (120, 40), (60, 40)], [Wire(source=0, target=1), Wire(source=1, target=2)], direction="down"
    )
    assert len({place.x + place.width / 2 for place in layout.boxes}) == 1
    assert all(x == route.start[0] for route in layout.routes for x, _ in route.points())


def test_a_wide_workflow_is_drawn_to_the_right_and_a_long_one_down():
    fan = [Wire(source=0, target=number) for number in range(1, 41)]
    assert lay_out([(140, 50)] * 41, fan).direction == "right"
    chain = [Wire(source=number, target=number + 1) for number in range(40)]
    assert lay_out([(140, 50)] * 41, chain).direction == "down"


def large(count, width, seed):
    """A workflow as people write large ones: layers, some long arrows."""
    chance = random.Random(seed)
    nodes: list[dict] = []
    layers: list[list[str]] = []
    while len(nodes) < count:
        layer = [f"n{len(nodes) + number}" for number in range(min(count - len(nodes), chance.randint(1, width)))]
        for name in layer:
            near = chance.choices(layers[-1], k=2) if layers else []
            far = [chance.choice(chance.choice(layers))] if layers and chance.random() < 0.15 else []
            nodes.append({"id": name, "type": "task", "dependencies": sorted({*near, *far})})
        layers.append(layer)
    return compile_definition({"name": "large", "nodes": nodes}).get_ir()


@pytest.mark.slow
@pytest.mark.parametrize("make", ["layers", "chain", "fan", "all of the first"])
def test_a_thousand_nodes_take_less_than_two_seconds(make):
    from perdure.drawing import draw

    count = 1000
    if make == "layers":
        ir = large(count, 12, seed=2)
    else:
        before = {
            "chain": lambda n: [n - 1] if n else [],
            "fan": lambda n: [0] if 0 < n < count - 1 else list(range(1, n)),
            "all of the first": lambda n: [n - 1, *range(0, n - 1, 100)] if n else [],
        }[make]
        nodes = [{"id": f"n{n}", "type": "task", "dependencies": [f"n{m}" for m in before(n)]} for n in range(count)]
        ir = compile_definition({"name": make.replace(" ", "_"), "nodes": nodes}).get_ir()
    begun = time.process_time()  # of this process: the machine may be busy
    text = draw(ir, "svg")
    assert time.process_time() - begun < 2.0
    assert text.count('class="box') == count


@pytest.mark.slow
def test_more_arrows_than_can_be_led_around_are_drawn_all_the_same():
    count = 260
    wires = [
        Wire(source=one, target=other, label=(40, 20)) for one in range(count) for other in range(one + 1, count, 9)
    ]
    layout = lay_out([(80, 40)] * count, wires)
    assert len(layout.routes) == len(wires)
    assert all(route.curves for route in layout.routes)


@pytest.mark.slow
def test_the_same_workflow_is_drawn_the_same_in_every_process():
    code = (
        "import hashlib\nfrom tests.drawing.test_layout import large\nfrom perdure.drawing import draw\n"
        "ir = large(80, 6, seed=5)\n"
        "print([hashlib.sha256(draw(ir, f).encode()).hexdigest() for f in ('svg', 'mermaid', 'dot')])"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": python_path()},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
