"""The parts of an IR that the checker reads: nodes and edges by id, so that patches need no renumbering."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from perdure.model.ir import IR, Node


class Edge(NamedTuple):
    source: str
    target: str
    common: int
    """How many loops both ends share."""
    named: bool
    required: bool
    streams: bool = False


class Graph:
    """One IR by ids; its indexes stay inside."""

    def __init__(self, ir: IR) -> None:
        self.limits = ir.limits
        self.widest = {node.id: ir.fanout_of(node) for node in ir.nodes if node is not None}
        """How many edges or items one outcome of a node may have."""
        self.nodes: dict[str, Node] = {node.id: node for node in ir.nodes if node is not None}
        ids = [node.id if node is not None else "" for node in ir.nodes]
        self.incoming: dict[str, list[Edge]] = {name: [] for name in self.nodes}
        self.outgoing: dict[str, list[Edge]] = {name: [] for name in self.nodes}
        self.loops: dict[str, tuple[str, ...]] = {}
        self.heads: dict[str, str] = {}
        self.exits: dict[str, list[Edge]] = {}
        self.regions: dict[str, str] = {}
        """The nearest any or at_least join that everything after a node leads to (rule 11)."""
        self.agents: dict[str, frozenset[str]] = {}
        """Nodes that an agent may choose, by the node whose agent chooses."""
        self.unchosen: dict[str, frozenset[str]] = {}
        """Targets that such a node goes to when it leaves, whatever its agent chooses: ways that no routing names,
        and the break path of a loop."""
        self.people: dict[str, frozenset[str]] = {}
        """Approvals outside of loops, and where the run goes on when they are not given."""
        self.breakable: set[str] = set()
        """Nodes that may fail without failing their run: what fails with them goes on by its own `on_failure`."""
        self.handled: dict[str, frozenset[str]] = {}
        """Where the run goes on when a node fails that has a way for that."""
        edges: list[Edge | None] = []
        for edge in ir.edges:
            if edge.kind == "back":
                edges.append(None)
                continue
            seen = Edge(ids[edge.source], ids[edge.target], edge.common, edge.named, edge.required, bool(edge.ports))
            edges.append(seen)
            self.incoming[seen.target].append(seen)
            self.outgoing[seen.source].append(seen)
        for name, node in self.nodes.items():
            self.loops[name] = tuple(ids[i] for i in node.loops)
            if node.loop is not None:
                self.heads[name] = ids[node.loop.head]
                self.exits[name] = [found for i in node.loop.exits if (found := edges[i]) is not None]
            if node.region is not None:
                self.regions[name] = ids[node.region]
            if node.branch is not None and node.branch.kind == "agent_driven":
                self.agents[name] = frozenset(ids[i] for i in node.branch.available)
                breaks = node.loop.break_path if node.loop is not None else None
                free = {edge.target for edge in self.outgoing[name] if not edge.named}
                self.unchosen[name] = frozenset(free | {ids[i] for i in breaks or ()})
            leaves = any(edge.common < len(node.loops) for edge in self.outgoing[name])
            if node.on_failure != "fail" or node.lenient or node.region is not None or leaves:
                self.breakable.add(name)
            if node.on_failure == "continue":
                self.handled[name] = frozenset(edge.target for edge in self.outgoing[name])
            elif node.on_failure == "path":
                self.handled[name] = frozenset(ids[i] for i in node.failure_path)
            if node.type == "human" and not node.loops:
                anyway = node.branch is not None or node.on_failure == "continue"
                targets = {edge.target for edge in self.outgoing[name]} if anyway else set[str]()
                targets |= {ids[i] for i in (*(node.rejection_path or ()), *node.failure_path)}
                self.people[name] = frozenset(targets)

    def has(self, source: str, target: str) -> bool:
        return any(edge.source == source for edge in self.incoming.get(target, ()))


class Library:
    """Graphs by IR hash, built when first asked for."""

    def __init__(self, irs: Mapping[str, IR]) -> None:
        self.irs = irs
        self._graphs: dict[str, Graph] = {}

    def find(self, name: str) -> Graph | None:
        if name not in self._graphs:
            if name not in self.irs:
                return None
            self._graphs[name] = Graph(self.irs[name])
        return self._graphs[name]
