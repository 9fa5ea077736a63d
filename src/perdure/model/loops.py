"""Loops: their bodies, how they nest, and how an edge relates to them.

The body of a loop is every node on a path from its head to its looping node, plus the side chains that hang only on
those. Must not know conditions or what nodes do, except which types wait.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.model.definition import Definition
from perdure.model.graph import Graph
from perdure.model.ir import EdgeKind
from perdure.model.problems import Problems

MAX_NESTING = 16
# A body is found by searching from both ends; only a graph made for the purpose needs more steps than this.
MAX_STEPS = 50_000_000
WAITING_TYPES = frozenset({"wait", "human", "trigger"})


class Loops(msgspec.Struct):
    heads: dict[int, int]  # looping node -> head
    bodies: dict[int, list[int]]  # looping node -> body, ascending
    enclosing: list[tuple[int, ...]]  # node -> loops around it, outermost first


def read_loops(definition: Definition, graph: Graph, problems: Problems) -> Loops:
    heads = _find_heads(definition, graph, problems)
    bodies: dict[int, list[int]] = {}
    depth = [0] * len(graph.ids)
    search = _Search(graph)
    for looping, head in sorted(heads.items()):
        path = (*definition.path(graph.ids[looping]), "loop")
        before = search.steps
        body = search.find_body(head, looping)
        problems.budget.spend(search.steps - before)
        if search.steps > MAX_STEPS:
            problems.error(
                "loops_too_complex", path, "the loops of this workflow take too much work to check; use child workflows"
            )
            break
        if body is None:
            if looping not in graph.tangled:
                problems.error(
                    "loop_not_dominated",
                    (*path, "loop_back_to"),
                    f"loop of node '{graph.ids[looping]}' goes back to '{graph.ids[head]}', which does not lead to it; "
                    "name the node itself or one that comes before it",
                )
            continue
        for i in body:
            depth[i] += 1
        if max(depth[i] for i in body) > MAX_NESTING:
            problems.error(
                "loops_too_deep", path, f"more than {MAX_NESTING} loops contain the same node here; use child workflows"
            )
            break
        bodies[looping] = body
    enclosing = _nest(bodies, definition, graph, problems)
    return Loops(heads, bodies, enclosing)


def _find_heads(definition: Definition, graph: Graph, problems: Problems) -> dict[int, int]:
    heads: dict[int, int] = {}
    for i, id in enumerate(graph.ids):
        loop = definition.nodes[id].get("loop")
        if loop is None:
            continue
        head = loop.get("loop_back_to", id)
        if head in graph.index:
            heads[i] = graph.index[head]
        else:
            hint = problems.suggest(head, graph.index) or "; name a node that comes before it"
            problems.error(
                "unknown_node",
                (*definition.path(id), "loop", "loop_back_to"),
                f"loop of node '{id}' goes back to node '{head[:128]}', which does not exist{hint}",
            )
    return heads


class _Search:
    def __init__(self, graph: Graph) -> None:
        self._parents = graph.parents
        self._children = graph.children
        self.steps = 0

    def find_body(self, head: int, looping: int) -> list[int] | None:
        """The body, or None when the head does not lead to the looping node."""
        core = {looping} if head == looping else self._between(head, looping)
        if core is None:
            return None
        self._add_side_chains(core, looping)
        return sorted(core)

    def _between(self, head: int, looping: int) -> set[int] | None:
        """Nodes on a path between the ends. Both ends search in turn; the one that is done first limits the other."""
        forward, backward = {head}, {looping}
        to_open, to_open_back = [head], [looping]
        while to_open and to_open_back:
            for j in self._children[to_open.pop()]:
                self.steps += 1
                if j <= looping and j not in forward:
                    forward.add(j)
                    to_open.append(j)
            for j in self._parents[to_open_back.pop()]:
                self.steps += 1
                if j >= head and j not in backward:
                    backward.add(j)
                    to_open_back.append(j)
            if self.steps > MAX_STEPS:
                return None  # given up: the caller sees the steps and reports it
        if not to_open:
            return self._within(looping, self._parents, forward) if looping in forward else None
        return self._within(head, self._children, backward) if head in backward else None

    def _within(self, start: int, links: list[list[int]], allowed: set[int]) -> set[int]:
        seen = {start}
        stack = [start]
        while stack:
            for j in links[stack.pop()]:
                self.steps += 1
                if j in allowed and j not in seen:
                    seen.add(j)
                    stack.append(j)
        return seen

    def _add_side_chains(self, body: set[int], looping: int) -> None:
        """Add nodes with all parents in the body (the looping node aside): they run in every iteration too."""
        inside: dict[int, int] = {}
        stack = [i for i in body if i != looping]
        while stack:
            for j in self._children[stack.pop()]:
                self.steps += 1
                if j in body:
                    continue
                inside[j] = inside.get(j, 0) + 1
                if inside[j] == len(self._parents[j]):
                    body.add(j)
                    stack.append(j)


def _nest(
    bodies: dict[int, list[int]], definition: Definition, graph: Graph, problems: Problems
) -> list[tuple[int, ...]]:
    enclosing: list[tuple[int, ...]] = [()] * len(graph.ids)
    # Larger bodies first: a loop already around all nodes of a body contains it.
    for looping in sorted(bodies, key=lambda i: (-len(bodies[i]), i)):
        body = bodies[looping]
        around = enclosing[looping]
        other = next((i for i in body if enclosing[i] != around), None)
        if other is not None:
            clash = (set(enclosing[other]) ^ set(around)).pop()
        elif around and len(bodies[around[-1]]) == len(body):
            clash = around[-1]
        else:
            inner = (*around, looping)
            for i in body:
                enclosing[i] = inner
            continue
        problems.error(
            "loops_overlap",
            (*definition.path(graph.ids[looping]), "loop"),
            f"loops of nodes '{graph.ids[looping]}' and '{graph.ids[clash]}' share nodes but neither contains the other; "
            "let one of them go back further, or separate them",
        )
    return enclosing


def classify(source: tuple[int, ...], target: tuple[int, ...]) -> tuple[EdgeKind, int]:
    """The kind of a forward edge, and how many loops both ends share."""
    if source == target:
        return "inner", len(source)
    common = 0
    for a, b in zip(source, target, strict=False):
        if a != b:
            break
        common += 1
    if len(source) > common:
        return "exit", common
    return ("entry" if len(target) > common else "inner"), common


def check_endless(definition: Definition, graph: Graph, loops: Loops, problems: Problems) -> None:
    for looping, body in loops.bodies.items():
        node = definition.nodes[graph.ids[looping]]
        if "max_iterations" in node["loop"] or not definition.workflow.get("endless"):
            continue
        if not any(_waits(definition.nodes[graph.ids[i]]) for i in body):
            problems.error(
                "endless_without_wait",
                (*definition.path(graph.ids[looping]), "loop"),
                f"endless loop of node '{graph.ids[looping]}' contains no wait, human or trigger node; "
                "add one, or give it max_iterations",
            )


def _waits(node: dict[str, Any]) -> bool:
    return node["type"] in WAITING_TYPES
