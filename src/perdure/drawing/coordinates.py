"""Where in its layer each vertex stands: near what it is linked to, never over its neighbour.

Every vertex would like to stand at the weighted mean of its neighbours. Per layer, the nearest places that keep order
and distance are found exactly (pool adjacent violators); sweeps repeat that until it settles.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import msgspec

_MOST_ROUNDS = 24
_WORK = 1_200_000


class Tie(msgspec.Struct, gc=False):
    """A segment as a wish: the two ends, each at an offset from its vertex's middle, want the same coordinate."""

    upper: int
    lower: int
    upper_offset: float
    lower_offset: float
    weight: float


class Extent(msgspec.Struct, frozen=True, gc=False):
    """How much room a vertex takes before and after its middle, distance to the neighbours included."""

    before: float
    after: float


Near = list[tuple[int, float, float]]
"""(vertex, offset to add to its place, weight)"""


def place(rows: list[list[int]], extents: list[Extent], ties: list[Tie]) -> list[float]:
    """The middle of each vertex along its layer."""
    above: list[Near] = [[] for _ in extents]
    below: list[Near] = [[] for _ in extents]
    for tie in ties:
        above[tie.lower].append((tie.upper, tie.upper_offset - tie.lower_offset, tie.weight))
        below[tie.upper].append((tie.lower, tie.lower_offset - tie.upper_offset, tie.weight))
    both = [one + other for one, other in zip(above, below, strict=True)]
    gaps = [_gaps(row, extents) for row in rows]
    where = [0.0] * len(extents)
    for row, gap in zip(rows, gaps, strict=True):
        total = sum(gap)
        at = -total / 2
        for vertex, step in zip(row, [0.0, *gap], strict=False):
            at += step
            where[vertex] = at
    rounds = max(4, min(_MOST_ROUNDS, _WORK // (1 + 10 * (len(extents) + len(ties)))))
    for number in range(rounds):
        near = both if number >= rounds // 3 else above if number % 2 == 0 else below
        order = range(len(rows)) if number % 2 == 0 else range(len(rows) - 1, -1, -1)
        for one in order:
            _settle(rows[one], gaps[one], near, where)
    return where


def _gaps(row: list[int], extents: list[Extent]) -> list[float]:
    return [extents[one].after + extents[other].before for one, other in pairwise(row)]


def _settle(row: list[int], gaps: list[float], near: list[Near], where: list[float]) -> None:
    """Place one layer as near as possible to what its vertices wish (least squares, order kept)."""
    blocks: list[list[float]] = []  # [sum of weighted wishes, sum of weights, number of vertices]
    shift = 0.0
    for number, vertex in enumerate(row):
        if number:
            shift += gaps[number - 1]
        wish, weight = where[vertex], 0.01
        if near[vertex]:
            weight = sum(one for _, _, one in near[vertex])
            wish = sum((where[other] + offset) * one for other, offset, one in near[vertex]) / weight
        block = [(wish - shift) * weight, weight, 1]
        while blocks and blocks[-1][0] / blocks[-1][1] > block[0] / block[1]:
            before = blocks.pop()
            block = [before[0] + block[0], before[1] + block[1], before[2] + block[2]]
        blocks.append(block)
    number, shift = 0, 0.0
    for total, weight, count in blocks:
        at = total / weight
        for _ in range(int(count)):
            if number:
                shift += gaps[number - 1]
            where[row[number]] = at + shift
            number += 1


def straighten(rows: list[list[int]], extents: list[Extent], chains: list[list[int]], where: list[float]) -> None:
    """Let vertices that follow each other stand in one line, as far as the neighbours leave room for it.

    It works from the outside in: a vertex that is moved out makes room for the next.
    """
    spots = {vertex: (row, number) for row in rows for number, vertex in enumerate(row)}

    def room(vertex: int) -> tuple[float, float]:
        row, number = spots[vertex]
        low, high = float("-inf"), float("inf")
        if number:
            other = row[number - 1]
            low = where[other] + extents[other].after + extents[vertex].before
        if number + 1 < len(row):
            other = row[number + 1]
            high = where[other] - extents[other].before - extents[vertex].after
        return low, high

    middle = sum(where) / max(len(where), 1)
    for chain in sorted(chains, key=lambda one: (-abs(sum(where[v] for v in one) / len(one) - middle), one)):
        for run, low, high in _runs(chain, room):
            wish = sum(where[vertex] for vertex in run) / len(run)
            for vertex in run:
                where[vertex] = min(max(wish, low), high)


def _runs(chain: list[int], room: Callable[[int], tuple[float, float]]) -> list[tuple[list[int], float, float]]:
    """The chain in as few pieces as can stand in one line each, with the room each has."""
    found: list[tuple[list[int], float, float]] = []
    for vertex in chain:
        low, high = room(vertex)
        if found and max(low, found[-1][1]) <= min(high, found[-1][2]):
            run, least, most = found[-1]
            found[-1] = ([*run, vertex], max(low, least), min(high, most))
        else:
            found.append(([vertex], low, high))
    return found
