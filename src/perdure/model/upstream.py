"""References against the graph: whether what they read exists, comes before, and surely runs.

Questions of the form "is a before b" are collected and answered together, so that a workflow of 100,000 nodes costs one
sweep and not 100,000 searches (PROTOCOL 32).
"""

from __future__ import annotations

from collections.abc import Iterable

from perdure.model.graph import Graph

# Bits of one mask: larger masks mean fewer sweeps, and this many bytes for each node between the ends.
_BATCH = 4096


def find_unreached(graph: Graph, questions: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """The pairs (before, after) where `before` is not an ancestor of `after`."""
    wrong: set[tuple[int, int]] = set()
    open_questions: dict[int, list[int]] = {}
    for before, after in questions:
        if before >= after:
            wrong.add((before, after))
        elif (before, after) not in graph.pairs:
            open_questions.setdefault(before, []).append(after)
    sources = sorted(open_questions)
    for start in range(0, len(sources), _BATCH):
        wrong |= _sweep(graph, sources[start : start + _BATCH], open_questions)
    return wrong


def _sweep(graph: Graph, sources: list[int], questions: dict[int, list[int]]) -> set[tuple[int, int]]:
    """One pass in topological order; bit k of a node's mask says that sources[k] is before it."""
    first, last = sources[0], max(max(questions[s]) for s in sources)
    bits = {source: 1 << k for k, source in enumerate(sources)}
    asked: dict[int, list[int]] = {}
    for source in sources:
        for after in questions[source]:
            asked.setdefault(after, []).append(source)
    masks: dict[int, int] = {}
    wrong: set[tuple[int, int]] = set()
    for i in range(first, last + 1):
        mask = 0
        for parent in graph.parents[i]:
            if parent >= first:
                mask |= masks.get(parent, 0)
        for source in asked.get(i, ()):
            if not mask & bits[source]:
                wrong.add((source, i))
        mask |= bits.get(i, 0)
        if mask:
            masks[i] = mask
    return wrong


class Certainty:
    """Whether a node has surely run when another one runs.

    `may_skip` says that a node can be skipped at all: it has `when`, or too few of its edges are certain. An edge is
    uncertain when routing names it, when its source may be skipped, or when it leaves a loop that can be left in several
    places. Even then a node that dominates the reader (every path to the reader goes through it, or a required or
    complete join does) has run whenever the reader runs. Dominators are kept as a tree with jump pointers, so both
    building it and asking are logarithmic.
    """

    def __init__(
        self, graph: Graph, conditional: list[bool], needed: list[int | None], leaky: set[tuple[int, int]]
    ) -> None:
        self._graph = graph
        size = len(graph.ids)
        self.may_skip = [False] * size
        self._depth = [0] * size
        self._up = [-1] * size
        self._jump = [-1] * size
        self._needed = needed
        for i in range(size):
            self._place(i, conditional[i], leaky)

    def _place(self, i: int, conditional: bool, leaky: set[tuple[int, int]]) -> None:
        parents = self._graph.parents[i]
        pairs = self._graph.pairs
        shaky = {p for p in parents if self.may_skip[p] or pairs[p, i].named or (p, i) in leaky}
        required = [p for p in parents if pairs[p, i].required]
        needed = self._needed[i]
        too_few = len(parents) - len(shaky) < (1 if needed is None else needed)
        self.may_skip[i] = conditional or (bool(parents) and (too_few or any(p in shaky for p in required)))
        certain = self._certain(i)
        if certain:
            self._attach(i, max(certain, key=lambda p: self._depth[p]))
        elif parents:
            common = parents[0]
            for parent in parents[1:]:
                common = self._meet(common, parent)
                if common < 0:
                    break
            self._attach(i, common)

    def _certain(self, i: int) -> list[int]:
        """Parents that must all have been taken for this node to run."""
        parents = self._graph.parents[i]
        if len(parents) == 1 or self._needed[i] == len(parents):
            return parents
        return [p for p in parents if self._graph.pairs[p, i].required]

    def _attach(self, i: int, up: int) -> None:
        self._up[i] = up
        if up < 0:
            return
        self._depth[i] = self._depth[up] + 1
        jump = self._jump[up]
        far = self._jump[jump] if jump >= 0 else -1
        if jump >= 0 and far >= 0 and self._depth[up] - self._depth[jump] == self._depth[jump] - self._depth[far]:
            self._jump[i] = far
        else:
            self._jump[i] = up

    def _lift(self, i: int, depth: int) -> int:
        while self._depth[i] > depth:
            jump = self._jump[i]
            i = jump if jump >= 0 and self._depth[jump] >= depth else self._up[i]
        return i

    def _meet(self, a: int, b: int) -> int:
        if a < 0 or b < 0:
            return -1
        a, b = self._lift(a, self._depth[b]), self._lift(b, self._depth[a])
        while a != b:
            if self._jump[a] != self._jump[b]:
                a, b = self._jump[a], self._jump[b]
            else:
                a, b = self._up[a], self._up[b]
            if a < 0 or b < 0:
                return -1
        return a

    def surely_ran(self, node: int, reader: int) -> bool:
        if not self.may_skip[node]:
            return True
        pair = self._graph.pairs.get((node, reader))
        if pair is not None and (pair.required or self._needed[reader] == len(self._graph.parents[reader])):
            return True
        return self._depth[node] <= self._depth[reader] and self._lift(reader, self._depth[node]) == node
