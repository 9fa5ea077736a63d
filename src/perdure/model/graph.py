"""Nodes and edges: one edge per pair, Kahn's order, cycles, reachability.

Owns the graph as plain integers. Must not know loops' bodies (`loops.py`) nor what nodes do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from perdure.model.definition import Definition
from perdure.model.problems import Path, Problems

# The parts of a canonical node that route: their targets are named edges.
Targets = Iterator[tuple[Path, list[str]]]

_EDGE_STEPS = 10  # of a `Budget`: to read one edge


class Pair(msgspec.Struct, gc=False):
    """An edge between two nodes, whichever part of the definition names it."""

    named: bool = False
    required: bool = False
    ports: set[tuple[str, str]] | None = None


class Graph(msgspec.Struct):
    """Nodes and edges. `ids` are in Kahn level order; all else are indexes into it. Back edges are left out."""

    ids: list[str]
    index: dict[str, int]
    pairs: dict[tuple[int, int], Pair]
    parents: list[list[int]]
    children: list[list[int]]
    tangled: set[int]  # nodes in or behind a cycle: their order is not to be trusted


def routes(node: dict[str, Any]) -> Targets:
    """Every list of nodes that this node's routing names, with its place."""
    branch = node.get("branch")
    if branch is not None:
        for position, rule in enumerate(branch.get("rules", ())):
            yield ("branch", "rules", position, "next_nodes"), rule["next_nodes"]
        for key in ("default", "available_next_nodes"):
            if key in branch:
                yield ("branch", key), branch[key]
    loop = node.get("loop")
    if loop is not None:
        for key in ("break_path", "timeout_path"):
            if key in loop:
                yield ("loop", key), loop[key]
    if "rejection_path" in node:
        yield ("rejection_path",), node["rejection_path"]
    on_failure = node.get("on_failure")
    if isinstance(on_failure, dict):
        yield ("on_failure", "path"), on_failure["path"]


def collect_pairs(definition: Definition, problems: Problems) -> dict[tuple[str, str], Pair]:
    """All edges by the ids of their ends; unknown nodes and self dependencies are reported and left out."""
    pairs: dict[tuple[str, str], Pair] = {}
    nodes = definition.nodes
    problems.budget.spend(_EDGE_STEPS * len(definition.links))
    for link in definition.links:
        unknown = [id for id in (link.source, link.target) if id not in nodes]
        for id in unknown:
            _report_unknown(id, link.path, "an edge", definition, problems)
        if unknown:
            continue
        if link.source == link.target:
            problems.error(
                "self_dependency", link.path, f"node '{link.source}' depends on itself; use loop to repeat a node"
            )
            continue
        pair = pairs.setdefault((link.source, link.target), Pair())
        pair.required |= link.required
        if link.ports is not None:
            pair.ports = (pair.ports or set()) | {link.ports}
    for id, node in nodes.items():
        for where, targets in routes(node):
            for target in targets:
                path = (*definition.path(id), *where)
                if target not in nodes:
                    _report_unknown(target, path, f"'{where[-1]}' of node '{id}'", definition, problems)
                elif target == id:
                    problems.error(
                        "self_dependency",
                        path,
                        f"'{where[-1]}' of node '{id}' leads to the node itself; use loop to repeat a node",
                    )
                else:
                    pairs.setdefault((id, target), Pair()).named = True
    return pairs


def _report_unknown(id: str, path: Path, what: str, definition: Definition, problems: Problems) -> None:
    hint = problems.suggest(id, definition.nodes) or "; add the node or remove the name"
    problems.error("unknown_node", path, f"{what} names node '{id[:128]}', which does not exist{hint}")


def build_graph(definition: Definition, pairs: dict[tuple[str, str], Pair], problems: Problems) -> Graph:
    ids = sorted(definition.nodes)
    rank = {id: i for i, id in enumerate(ids)}
    children: list[list[int]] = [[] for _ in ids]
    waiting = [0] * len(ids)
    for source, target in pairs:
        children[rank[source]].append(rank[target])
        waiting[rank[target]] += 1
    order, cut = _sort(children, waiting)
    tangled: set[int] = set()
    if cut:
        tangled = set(order[1])
        _check_ends(ids, children, waiting, definition, problems)
        _report_cycle([ids[i] for i in cut[0]], definition, problems)
    ordered = order[0] + order[1]
    new = [0] * len(ids)
    for position, old in enumerate(ordered):
        new[old] = position
    dropped = {(cycle[-1], cycle[0]) for cycle in cut}
    graph = Graph(
        [ids[old] for old in ordered], {}, {}, [[] for _ in ids], [[] for _ in ids], {new[old] for old in tangled}
    )
    graph.index = {id: i for i, id in enumerate(graph.ids)}
    for (source, target), pair in pairs.items():
        if dropped and (rank[source], rank[target]) in dropped:
            continue
        graph.pairs[new[rank[source]], new[rank[target]]] = pair
    for source_index, target_index in sorted(graph.pairs):
        graph.children[source_index].append(target_index)
        graph.parents[target_index].append(source_index)
    return graph


def _sort(children: list[list[int]], waiting: list[int]) -> tuple[tuple[list[int], list[int]], list[list[int]]]:
    """Sort by Kahn's algorithm: by levels, ties by id. Cycles are cut open so that the rest can still be checked.

    Returns (sorted, tangled) and the cycles; the last edge of each, from its end to its start, is to be left out.
    """
    left = list(waiting)
    clean = _levels(children, left, [i for i, count in enumerate(left) if count == 0])
    if len(clean) == len(children):
        return (clean, []), []
    remaining = {i for i, count in enumerate(left) if count > 0}
    cycles = _find_cycles(children, remaining)
    dropped = {(cycle[-1], cycle[0]) for cycle in cycles}
    opened: list[list[int]] = [[] for _ in children]
    counts = [0] * len(children)
    for i in remaining:
        opened[i] = [j for j in children[i] if (i, j) not in dropped]
        for j in opened[i]:
            counts[j] += 1
    rest = _levels(opened, counts, [i for i in sorted(remaining) if counts[i] == 0])
    return (clean, rest), cycles


def _levels(children: list[list[int]], waiting: list[int], level: list[int]) -> list[int]:
    order: list[int] = []
    while level:
        order.extend(level)
        following = []
        for i in level:
            for j in children[i]:
                waiting[j] -= 1
                if waiting[j] == 0:
                    following.append(j)
        following.sort()
        level = following
    return order


def _find_cycles(children: list[list[int]], remaining: set[int]) -> list[list[int]]:
    """The cycles, found depth-first: every edge back to the open path closes one."""
    cycles: list[list[int]] = []
    done: set[int] = set()
    for start in sorted(remaining):
        if start in done:
            continue
        trail = [start]
        on_trail = {start: 0}
        todo = [iter(children[start])]
        while todo:
            for j in todo[-1]:
                if j in on_trail:
                    # Only the first cycle is shown whole; of the others the closing edge is enough.
                    cycles.append(trail[on_trail[j] :] if not cycles else [j, trail[-1]])
                elif j not in done:
                    on_trail[j] = len(trail)
                    trail.append(j)
                    todo.append(iter(children[j]))
                    break
            else:
                todo.pop()
                last = trail.pop()
                del on_trail[last]
                done.add(last)
    return cycles


def _report_cycle(cycle: list[str], definition: Definition, problems: Problems) -> None:
    start = cycle.index(min(cycle))
    names = cycle[start:] + cycle[:start]
    shown = names if len(names) <= 20 else [*names[:10], "…", *names[-9:]]
    text = " -> ".join([*shown, names[0]])
    problems.error(
        "cycle", definition.path(names[0]), f"nodes depend on each other in a circle: {text}; use loop to repeat nodes"
    )


def _check_ends(
    ids: list[str], children: list[list[int]], waiting: list[int], definition: Definition, problems: Problems
) -> None:
    """Check entries, ends, and whether every node lies between them. Without cycles all of it holds by itself."""
    entries = [i for i, count in enumerate(waiting) if count == 0]
    ends = [i for i, below in enumerate(children) if not below]
    if not entries:
        problems.error(
            "no_entry", ("nodes",), "no node can start: each waits for another; remove a dependency of the first one"
        )
    if not ends:
        problems.error(
            "no_exit", ("nodes",), "no node can end the run: each leads to another; use loop to repeat nodes"
        )
    if entries and len(reached := _sweep(children, entries)) < len(ids):
        for i in range(len(ids)):
            if i not in reached:
                problems.error(
                    "unreachable",
                    definition.path(ids[i]),
                    f"node '{ids[i]}' cannot be reached from any entry; connect or remove it",
                )
    if ends:
        parents: list[list[int]] = [[] for _ in ids]
        for i, below in enumerate(children):
            for j in below:
                parents[j].append(i)
        if len(reached := _sweep(parents, ends)) < len(ids):
            for i in range(len(ids)):
                if i not in reached:
                    problems.error(
                        "no_terminal_reachable",
                        definition.path(ids[i]),
                        f"node '{ids[i]}' leads to no end; connect it to a node that ends",
                    )


def _sweep(children: list[list[int]], start: list[int]) -> set[int]:
    seen = set(start)
    stack = list(start)
    while stack:
        for j in children[stack.pop()]:
            if j not in seen:
                seen.add(j)
                stack.append(j)
    return seen
