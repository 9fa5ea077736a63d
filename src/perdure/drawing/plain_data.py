"""A picture with its places as plain data, for programs that draw themselves."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from perdure.drawing.layout import Direction, Layout
from perdure.drawing.picture import Box, Picture
from perdure.drawing.stacks import find_stacks, stack_up
from perdure.drawing.svg import plan_layout

ALL = "*"
"""Instead of the id of a stack: every stack."""


def describe(picture: Picture, *, direction: Direction | None = None) -> dict[str, Any]:
    """Every box and every arrow with its place, and how far a run is if the picture is of one."""
    layout = plan_layout(picture, direction=direction)
    names = [box.id for box in picture.boxes]
    nodes = [
        {**_describe_box(box), "state": box.state or None, "place": place}
        for box, place in zip(picture.boxes, layout.boxes, strict=True)
    ]
    edges = [
        {**one, "fate": arrow.fate or None}
        for one, arrow in zip(_describe_arrows(picture, layout, names), picture.arrows, strict=True)
    ]
    about = {"name": picture.name, "description": picture.description}
    return {**about, **_describe_size(layout), "nodes": nodes, "edges": edges}


def describe_stacked(
    picture: Picture, *, direction: Direction | None = None, opened: Collection[str] = ()
) -> dict[str, Any]:
    """The picture with its stacks. A node in a closed stack has no place of its own; an open stack has none as a whole."""
    stacks = find_stacks(picture)
    closed = [] if ALL in opened else [stack for stack in stacks if stack.id not in opened]
    drawn = stack_up(picture, closed)
    layout = plan_layout(drawn.picture, direction=direction)
    of = {number: stack.id for stack in stacks for number in stack.boxes}
    nodes = [
        {
            **_describe_box(box),
            "place": layout.boxes[drawn.where[number]] if number in drawn.where else None,
            "stack": of.get(number),
        }
        for number, box in enumerate(picture.boxes)
    ]
    piles = [
        {
            "id": stack.id,
            "nodes": [picture.boxes[number].id for number in stack.boxes],
            "place": layout.boxes[drawn.closed[stack.id]] if stack.id in drawn.closed else None,
        }
        for stack in stacks
    ]
    edges = _describe_arrows(drawn.picture, layout, drawn.names)
    about = {"name": picture.name, "description": picture.description}
    return {**about, **_describe_size(layout), "nodes": nodes, "edges": edges, "stacks": piles}


def _describe_size(layout: Layout) -> dict[str, Any]:
    return {"direction": layout.direction, "width": layout.width, "height": layout.height}


def _describe_box(box: Box) -> dict[str, Any]:
    about = {"id": box.id, "type": box.type, "detail": box.detail, "notes": box.notes}
    return {**about, "compensated": box.compensated}


def _describe_arrows(picture: Picture, layout: Layout, names: Collection[str]) -> list[dict[str, Any]]:
    called = list(names)
    return [
        {
            "from": called[arrow.source],
            "to": called[arrow.target],
            "kind": arrow.kind,
            "label": arrow.label or None,
            "label_place": label,
            "line": route,
        }
        for arrow, label, route in zip(picture.arrows, layout.labels, layout.routes, strict=True)
    ]
