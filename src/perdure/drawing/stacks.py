"""Stacks: many boxes that are alike and stand between the same neighbours, drawn as one card.

A workflow of thousands of nodes is mostly fans of the same step. It knows nothing of places, sizes or states, so a
picture has the same stacks however far a run is.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from perdure.drawing.picture import Arrow, Box, Picture

LEAST = 12
"""How many boxes alike make a stack."""


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    """The first node of the stack, and how many there are: `shard_1~40`. No node can be called so."""
    boxes: tuple[int, ...]


def find_stacks(picture: Picture) -> list[Stack]:
    """Boxes of the same type and detail, with the same arrows from and to the same others."""
    before: list[list[tuple[int, str, str]]] = [[] for _ in picture.boxes]
    after: list[list[tuple[int, str, str]]] = [[] for _ in picture.boxes]
    for arrow in picture.arrows:
        after[arrow.source].append((arrow.target, arrow.kind, arrow.label))
        before[arrow.target].append((arrow.source, arrow.kind, arrow.label))
    alike: dict[object, list[int]] = {}
    for number, box in enumerate(picture.boxes):
        same = (box.type, box.detail, tuple(sorted(before[number])), tuple(sorted(after[number])))
        alike.setdefault(same, []).append(number)
    return [
        Stack(id=f"{picture.boxes[boxes[0]].id}~{len(boxes)}", boxes=tuple(boxes))
        for boxes in alike.values()
        if len(boxes) >= LEAST
    ]


class Stacked(msgspec.Struct, frozen=True, kw_only=True):
    """A picture in which each closed stack is one box, and where the boxes of the first picture are in it."""

    picture: Picture
    names: tuple[str, ...]
    """The id of the node or the stack that each box stands for."""
    where: dict[int, int]
    """The box of each node that is drawn by itself."""
    closed: dict[str, int]
    """The box of each stack that is closed."""


def stack_up(picture: Picture, stacks: Collection[Stack]) -> Stacked:
    """Put each of these stacks on one box, in the place of its first node. Their arrows become one for each neighbour."""
    of = {number: stack for stack in stacks for number in stack.boxes}
    boxes: list[Box] = []
    names: list[str] = []
    where: dict[int, int] = {}
    closed: dict[str, int] = {}
    for number, box in enumerate(picture.boxes):
        stack = of.get(number)
        if stack is None:
            where[number] = len(boxes)
        elif stack.id in closed:
            continue
        else:
            closed[stack.id] = len(boxes)
            box = Box(id=box.id, type=box.type, detail=box.detail, notes=(f"{len(stack.boxes):,} alike",))
        names.append(box.id if stack is None else stack.id)
        boxes.append(box)
    ends = {number: closed[stack.id] for number, stack in of.items()} | where
    arrows = dict.fromkeys(
        Arrow(source=ends[one.source], target=ends[one.target], kind=one.kind, label=one.label, fate=one.fate)
        for one in picture.arrows
    )
    smaller = msgspec.structs.replace(picture, boxes=tuple(boxes), arrows=tuple(arrows))
    return Stacked(picture=smaller, names=tuple(names), where=where, closed=closed)
