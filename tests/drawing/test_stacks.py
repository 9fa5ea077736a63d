"""Stacks: which boxes are alike, and that a picture with stacks says the same as the one without."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.drawing.picture import Arrow, Box, Picture
from perdure.drawing.plain_data import describe, describe_stacked
from perdure.drawing.stacks import LEAST, find_stacks, stack_up
from tests.drawing.pictures import pictures


def fan(count, **odd):
    """`a` leads to so many alike, which lead to `z`."""
    middle = [Box(id=f"m{number}", type="task", detail="work", **odd.get(f"m{number}", {})) for number in range(count)]
    boxes = (Box(id="a", type="input"), *middle, Box(id="z", type="output"))
    arrows = [Arrow(source=0, target=number) for number in range(1, count + 1)]
    arrows += [Arrow(source=number, target=count + 1) for number in range(1, count + 1)]
    return Picture(name="fan", boxes=boxes, arrows=tuple(arrows))


def test_many_alike_between_the_same_neighbours_are_one_card():
    picture = fan(40)
    (stack,) = find_stacks(picture)
    assert (stack.id, stack.boxes) == ("m0~40", tuple(range(1, 41)))
    shown = describe_stacked(picture)
    assert {(one["from"], one["to"]) for one in shown["edges"]} == {("a", "m0~40"), ("m0~40", "z")}
    assert [one["id"] for one in shown["nodes"] if one["place"] is not None] == ["a", "z"]
    assert {one["stack"] for one in shown["nodes"]} == {None, "m0~40"}
    assert shown["stacks"][0]["place"] is not None
    assert len(shown["stacks"][0]["nodes"]) == 40


def test_a_stack_that_is_opened_is_drawn_node_by_node_and_is_still_named():
    picture = fan(40)
    whole = describe(picture)
    for opened in (["m0~40"], ["*"], ["other", "m0~40"]):
        shown = describe_stacked(picture, opened=opened)
        assert [one["place"] for one in shown["nodes"]] == [one["place"] for one in whole["nodes"]]
        assert len(shown["edges"]) == 80
        assert [(one["id"], one["place"]) for one in shown["stacks"]] == [("m0~40", None)]


def test_what_differs_in_type_detail_neighbours_or_label_is_not_in_the_stack():
    assert find_stacks(fan(LEAST - 1)) == []
    assert len(find_stacks(fan(LEAST))[0].boxes) == LEAST
    odd = fan(20)
    boxes = list(odd.boxes)
    boxes[1] = Box(id="m0", type="http", detail="work")
    boxes[2] = Box(id="m1", type="task", detail="other")
    arrows = list(odd.arrows)
    arrows[2] = Arrow(source=0, target=3, kind="choice", label="otherwise")
    arrows.append(Arrow(source=4, target=5))
    (stack,) = find_stacks(Picture(name="odd", boxes=tuple(boxes), arrows=tuple(arrows)))
    assert stack.boxes == tuple(range(6, 21))


@pytest.mark.slow
@given(pictures(most=10), st.integers(LEAST, LEAST + 4), st.data())
def test_no_node_and_no_edge_is_lost_in_a_stack(picture, count, data):
    """A random picture in which one box is there many times over."""
    copied = data.draw(st.integers(0, len(picture.boxes) - 1))
    first = len(picture.boxes)
    boxes = list(picture.boxes)
    arrows = list(picture.arrows)
    for number in range(count):
        original = picture.boxes[copied]
        boxes.append(Box(id=f"c{number}", type=original.type, detail=original.detail))
        for arrow in picture.arrows:
            ends = [first + number if end == copied else end for end in (arrow.source, arrow.target)]
            if copied in (arrow.source, arrow.target):
                arrows.append(Arrow(source=ends[0], target=ends[1], kind=arrow.kind, label=arrow.label))
    wide = Picture(name="wide", boxes=tuple(boxes), arrows=tuple(arrows))
    stacks = find_stacks(wide)
    drawn = stack_up(wide, stacks)
    members = [number for stack in stacks for number in stack.boxes]
    assert len(members) == len(set(members))
    assert sorted([*members, *drawn.where]) == list(range(len(wide.boxes)))
    of = {number: stack.id for stack in stacks for number in stack.boxes}
    name = [of.get(number, box.id) for number, box in enumerate(wide.boxes)]
    told = {(name[one.source], name[one.target], one.kind, one.label) for one in wide.arrows}
    shown = [(drawn.names[one.source], drawn.names[one.target], one.kind, one.label) for one in drawn.picture.arrows]
    assert set(shown) == told
    assert len(drawn.names) == len(set(drawn.names))
    for stack in stacks:  # what a member has, each member has
        for number in stack.boxes:
            leads = {(one.target, one.kind, one.label) for one in wide.arrows if one.source == number}
            assert leads == {(one.target, one.kind, one.label) for one in wide.arrows if one.source == stack.boxes[0]}
