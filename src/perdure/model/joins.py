"""Joins: whether they can fire, and which nodes lead only to them.

Owns the checks of `join` against the graph (rules 8, 12) and the two compile-time facts the kernel needs for races: `lenient`
(rule 10) and `region` (rule 11).
"""

from __future__ import annotations

from typing import Any

from perdure.model.definition import Definition
from perdure.model.graph import Graph
from perdure.model.loops import Loops, classify
from perdure.model.problems import Problems


def at_least(node: dict[str, Any]) -> int | None:
    """How many edges the join waits for; None for all."""
    join = node.get("join")
    if join is None:
        return None
    return 1 if join == "any" else int(join["at_least"])


def check_joins(definition: Definition, graph: Graph, loops: Loops, problems: Problems) -> None:
    for i, id in enumerate(graph.ids):
        needed = at_least(definition.nodes[id])
        if needed is None:
            continue
        parents = graph.parents[i]
        path = (*definition.path(id), "join")
        if needed > len(parents) and i not in graph.tangled:
            problems.error(
                "impossible_join",
                path,
                f"join of node '{id}' waits for {needed} edges, but it has {len(parents)}; ask for fewer",
            )
        around = loops.enclosing[i]
        if around and len({classify(loops.enclosing[p], around)[1] for p in parents}) > 1:
            problems.error(
                "mixed_join",
                path,
                f"join of node '{id}' mixes edges from inside and outside the loop of '{graph.ids[around[-1]]}'; "
                "use join: all, or bring the outer edge to the head of the loop",
            )


def find_regions(nodes: list[dict[str, Any]], children: list[list[int]]) -> tuple[list[bool], list[int | None]]:
    """For every node: whether joins alone decide a failure of it, and the join that everything after it leads to."""
    lenient = [False] * len(nodes)
    region: list[int | None] = [None] * len(nodes)
    racing = [at_least(node) is not None for node in nodes]
    for i in range(len(nodes) - 1, -1, -1):
        below = children[i]
        if not below:
            continue
        lenient[i] = all(racing[t] or (lenient[t] and "on_failure" not in nodes[t]) for t in below)
        first = below[0]
        carrier = first if racing[first] else region[first]
        if carrier is not None and all((t if racing[t] else region[t]) == carrier for t in below):
            region[i] = carrier
    return lenient, region
