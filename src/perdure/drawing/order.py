"""The order of the vertices inside each layer, so that few arrows cross.

It takes sweeps of barycentres down and up, then exchanges of neighbours; the best order seen is kept. Equal input gives
equal output: ties keep the order that was there. After a few rounds most layers stand still, and what a step found there
holds until the layer or one beside it changes: so each step remembers what it saw.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import msgspec

_WORK = 1_500_000
"""About how many steps over segments are spent; small graphs get all rounds, huge ones a few."""
_MOST_ROUNDS = 24
_TRANSPOSE_WORK = 400_000


class Segment(msgspec.Struct, gc=False):
    """A piece of an arrow between two neighbouring layers. The leans say where it is fixed at its vertices: 0 is the
    middle, above 0 the side where loops go back."""

    upper: int
    lower: int
    upper_lean: float = 0.0
    lower_lean: float = 0.0


class Layers:
    """Vertices in layers, with the segments between them."""

    def __init__(self, ranks: list[int], segments: list[Segment]) -> None:
        self.ranks = ranks
        self.rows: list[list[int]] = [[] for _ in range(max(ranks, default=-1) + 1)]
        self.above: list[list[tuple[int, float, float]]] = [[] for _ in ranks]
        """For each vertex: (vertex in the layer above, where it is fixed there, where here)."""
        self.below: list[list[tuple[int, float, float]]] = [[] for _ in ranks]
        self.segments = len(segments)
        for one in segments:
            self.above[one.lower].append((one.upper, one.upper_lean, one.lower_lean))
            self.below[one.upper].append((one.lower, one.lower_lean, one.upper_lean))
        self.place: list[int] = [0] * len(ranks)
        self._changes = [0] * len(self.rows)
        """How often the order of each layer has changed."""
        self._settled: dict[tuple[str, int], tuple[int, ...]] = {}
        """The changes that a step saw in a layer and beside it when it last left the layer as it was."""
        self._counted: dict[int, tuple[tuple[int, ...], int]] = {}
        """The crossings below each layer, and the changes they were counted at."""
        for vertex in self._walk():
            self.rows[ranks[vertex]].append(vertex)
        self._renumber()

    def _walk(self) -> list[int]:
        """All vertices, depth first from the top, so that those that belong together start side by side."""
        order: list[int] = []
        seen = [False] * len(self.ranks)
        for start in sorted(range(len(self.ranks)), key=lambda vertex: (self.ranks[vertex], vertex)):
            stack = [start]
            while stack:
                vertex = stack.pop()
                if seen[vertex]:
                    continue
                seen[vertex] = True
                order.append(vertex)
                stack.extend(lower for lower, _, _ in reversed(self.below[vertex]) if not seen[lower])
        return order

    def _renumber(self) -> None:
        for row in self.rows:
            for number, vertex in enumerate(row):
                self.place[vertex] = number

    # -- crossings -----------------------------------------------------------------------------------------------------

    def crossings(self) -> int:
        found = 0
        for number, row in enumerate(self.rows[:-1]):
            saw = self._see(number, number + 1)
            known = self._counted.get(number)
            if known is None or known[0] != saw:
                known = self._counted[number] = saw, self._crossings_below(row)
            found += known[1]
        return found

    def _see(self, *numbers: int) -> tuple[int, ...]:
        return tuple([self._changes[number] for number in numbers if 0 <= number < len(self.rows)])

    def _crossings_below(self, row: list[int]) -> int:
        place = self.place
        ends: list[float] = []
        pairs = sorted(
            (place[vertex] + lean, place[lower] + lower_lean)
            for vertex in row
            for lower, lower_lean, lean in self.below[vertex]
        )
        found = 0
        for _, end in pairs:
            at = bisect_right(ends, end)
            found += len(ends) - at
            ends.insert(at, end)
        return found

    # -- sweeps --------------------------------------------------------------------------------------------------------

    def untangle(self) -> int:
        """Find a good order; returns the number of crossings that are left."""
        rounds = max(2, min(_MOST_ROUNDS, _WORK // (1 + 8 * self.segments)))
        best, kept = self.crossings(), [list(row) for row in self.rows]
        stale = 0
        for number in range(rounds):
            if not best or stale > 6:
                break
            self._sweep(down=number % 2 == 0)
            if self.segments * 12 < _TRANSPOSE_WORK:
                self._transpose()
            found = self.crossings()
            stale = 0 if found < best else stale + 1
            if found < best:
                best, kept = found, [list(row) for row in self.rows]
        self.rows = kept
        self._renumber()
        return best

    def _sweep(self, *, down: bool) -> None:
        numbers = range(1, len(self.rows)) if down else range(len(self.rows) - 2, -1, -1)
        near = self.above if down else self.below
        place = self.place
        for number in numbers:
            step, saw = ("down" if down else "up", number), self._see(number - 1 if down else number + 1, number)
            if self._settled.get(step) == saw:
                continue
            row = self.rows[number]
            keys = {}
            for vertex in row:
                there = near[vertex]
                if there:
                    keys[vertex] = sum([place[other] + lean for other, lean, _ in there]) / len(there)
            before = list(row)
            _sort_keyed(row, keys)
            if row == before:
                self._settled[step] = saw
                continue
            self._changes[number] += 1
            for at, vertex in enumerate(row):
                place[vertex] = at

    def _transpose(self) -> None:
        """Exchange neighbours where that leaves fewer crossings. Only the order of their own layer changes meanwhile, so where
        the arrows of a vertex end is found once."""
        for number, row in enumerate(self.rows):
            step, saw = ("transpose", number), self._see(number - 1, number, number + 1)
            if self._settled.get(step) == saw:
                continue
            ends = {vertex: (self._ends(self.above[vertex]), self._ends(self.below[vertex])) for vertex in row}
            before = list(row)
            for at in range(len(row) - 1):
                left, right = row[at], row[at + 1]
                one, other = ends[left], ends[right]
                now = _cross(one[0], other[0]) + _cross(one[1], other[1])
                if now and _cross(other[0], one[0]) + _cross(other[1], one[1]) < now:
                    row[at], row[at + 1] = right, left
                    self.place[left], self.place[right] = at + 1, at
            if row == before:
                self._settled[step] = saw
            else:
                self._changes[number] += 1

    def _ends(self, near: list[tuple[int, float, float]]) -> list[float]:
        """Where arrows end in the layer they lead to, in order."""
        place = self.place
        return sorted([place[other] + lean for other, lean, _ in near]) if near else []


def _cross(ours: list[float], theirs: list[float]) -> int:
    """How many crossings the arrows of two neighbours have if ours begin before theirs; both in order."""
    if not ours or not theirs or ours[-1] <= theirs[0]:
        return 0
    return sum(bisect_left(theirs, end) for end in ours)


def _sort_keyed(row: list[int], keys: dict[int, float]) -> None:
    """Sort the vertices that have a key among the places they hold; the others stay where they are."""
    places = [number for number, vertex in enumerate(row) if vertex in keys]
    ordered = sorted((row[number] for number in places), key=keys.__getitem__)
    for number, vertex in zip(places, ordered, strict=True):
        row[number] = vertex
