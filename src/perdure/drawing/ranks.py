"""Which layer each box belongs to: every arrow leads down, as few layers as possible, arrows short.

It works on numbers of vertices and links only; it knows nothing of sizes or words.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

_ROUNDS = 8


class Link(msgspec.Struct, frozen=True, gc=False):
    """A demand that `lower` stands at least `length` layers below `upper`."""

    upper: int
    lower: int
    length: int = 1


def find_backward(count: int, pairs: Sequence[tuple[int, int]]) -> set[int]:
    """The arrows that must be turned around so that no circle is left (depth first, in order of number)."""
    below: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for number, (source, target) in enumerate(pairs):
        below[source].append((number, target))
    backward: set[int] = set()
    seen, open_ = [False] * count, [False] * count
    for start in range(count):
        if seen[start]:
            continue
        seen[start] = open_[start] = True
        path = [(start, iter(below[start]))]
        while path:
            vertex, rest = path[-1]
            for number, target in rest:
                if open_[target]:
                    backward.add(number)
                elif not seen[target]:
                    seen[target] = open_[target] = True
                    path.append((target, iter(below[target])))
                    break
            else:
                open_[vertex] = False
                path.pop()
    return backward


def rank(count: int, links: Sequence[Link]) -> list[int]:
    """The layer of each vertex, from 0. The links must have no circle."""
    into: list[list[Link]] = [[] for _ in range(count)]
    out: list[list[Link]] = [[] for _ in range(count)]
    for link in links:
        into[link.lower].append(link)
        out[link.upper].append(link)
    order = _sort(count, into, out)
    ranks = [0] * count
    for vertex in order:
        ranks[vertex] = max((ranks[link.upper] + link.length for link in into[vertex]), default=0)
    _tighten(order, into, out, ranks)
    lowest = min(ranks, default=0)
    return [one - lowest for one in ranks]


def _sort(count: int, into: list[list[Link]], out: list[list[Link]]) -> list[int]:
    missing = [len(into[vertex]) for vertex in range(count)]
    order = [vertex for vertex in range(count) if not missing[vertex]]
    for vertex in order:
        for link in out[vertex]:
            missing[link.lower] -= 1
            if not missing[link.lower]:
                order.append(link.lower)
    return order


def _tighten(order: list[int], into: list[list[Link]], out: list[list[Link]], ranks: list[int]) -> None:
    """Move vertices that more arrows leave than enter down to where those lead, and the others up, while that helps."""
    for _ in range(_ROUNDS):
        moved = False
        for vertex in reversed(order):
            if len(out[vertex]) > len(into[vertex]):
                best = min(ranks[link.lower] - link.length for link in out[vertex])
                moved |= best != ranks[vertex]
                ranks[vertex] = best
        for vertex in order:
            if len(into[vertex]) > len(out[vertex]):
                best = max(ranks[link.upper] + link.length for link in into[vertex])
                moved |= best != ranks[vertex]
                ranks[vertex] = best
        if not moved:
            return
