"""Labels over the graph: how far what a node reads and gives is to be believed, found without running anything.

What a node gives has the label of what it reads, made worse by what its type brings in: an `http` node brings what strangers write. A
node's own `labels` say otherwise. The flow is judged over the whole graph at once, loops included, because a value may go round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from perdure.agents.tool import Tool
from perdure.agents.toolbox import read_tools
from perdure.model.ir import IR, Node, Reference
from perdure.model.labels import PRIVATE, TRUSTED, UNTRUSTED, USER, Label, join, read_words
from perdure.nodes.registry import Registry

STRANGE = Label("untrusted", "private")
"""The label of a value of which nothing is known."""
_BY_CONFIG = frozenset({"agent", "classifier", "llm"})
"""Types that read what their config names, and no outputs beside that."""
_BRINGS: dict[str, Label] = {
    "human": TRUSTED,
    "transform": TRUSTED,
    "function": TRUSTED,
    "map": TRUSTED,
    "output": TRUSTED,
    "input": USER,
    "agent": USER,
    "classifier": USER,
    "llm": USER,
    "task": USER,
    "wait": USER,
    "http": UNTRUSTED,
    "search": UNTRUSTED,
    "workflow": STRANGE,  # what a child reads is not known here
}
_FIELDS: dict[str, Mapping[str, Label]] = {
    "human": dict.fromkeys(("decision", "decided_by", "comments", "data"), TRUSTED),
    "classifier": dict.fromkeys(("label", "labels"), USER),
    "agent": {"next_nodes": USER},
}
"""Fields of an output whose influence is bounded: a person gave them, or they are one of a closed list."""


class Flow(msgspec.Struct, frozen=True):
    """The labels of a workflow, by node."""

    reads: dict[str, Label]
    """The labels of what the config of each node is made of."""
    items: dict[str, Label]
    """The same of what a map does for each item."""
    gives: dict[str, Label]


def flow_of(ir: IR, registry: Registry, inputs: Label = USER) -> Flow:
    """The labels of all nodes, if run inputs have this one. It is found once for each definition."""
    known: dict[str, Flow] = ir.__dict__.setdefault("label_flows", {})
    name = str(inputs)
    if name not in known:
        known[name] = _make(ir, registry, inputs)
    return known[name]


def _make(ir: IR, registry: Registry, inputs: Label) -> Flow:
    nodes = [node for node in ir.nodes if node is not None]
    flow = Flow(*({node.id: TRUSTED for node in nodes} for _ in range(3)))
    before = {
        node.id: [one.id for edge in node.edges_in if (one := ir.nodes[ir.edges[edge].source]) is not None]
        for node in nodes
    }
    by_id = {node.id: node for node in nodes}
    changed = True
    while changed:  # labels only get worse, so it ends
        changed = False
        for node in nodes:
            looping = (ir.nodes[index] for index in node.loops)
            rounds = join(flow.gives[one.id] for one in looping if one is not None)
            reads = _reads(node, flow, by_id, before[node.id], inputs, TRUSTED, rounds)
            items = TRUSTED
            if node.item is not None:
                items = _reads(node.item, flow, by_id, before[node.id], inputs, reads, rounds)
            gives = _gives(node, reads, items, registry)
            found = (reads, items, gives)
            changed |= found != (flow.reads[node.id], flow.items[node.id], flow.gives[node.id])
            flow.reads[node.id], flow.items[node.id], flow.gives[node.id] = found
    return flow


def _reads(
    node: Node, flow: Flow, by_id: Mapping[str, Node], before: Iterable[str], inputs: Label, item: Label, rounds: Label
) -> Label:
    if node.config_ref is not None:  # what its templates name is known only when it runs
        return STRANGE
    found = join(_label_of(one, flow, by_id, inputs, item) for one in node.references)
    if any(one.root == "loop" for one in node.references):  # what an iteration before gave
        found |= rounds
    if node.type not in _BY_CONFIG:
        found |= join(flow.gives[name] for name in before)
    return found


def _label_of(one: Reference, flow: Flow, by_id: Mapping[str, Node], inputs: Label, item: Label) -> Label:
    match one.root:
        case "inputs":
            return inputs
        case "secrets":
            return PRIVATE
        case "item":
            return item
        case "node":
            node = by_id.get(one.node or "")
            if node is None:
                return STRANGE
            first = one.path[0] if one.path else None
            bounded = _FIELDS.get(node.type, {}).get(str(first)) if not node.labels else None
            gives = flow.gives[node.id]
            return gives if bounded is None else Label(bounded.integrity, gives.confidentiality)
        case _:
            return USER


def _gives(node: Node, reads: Label, items: Label, registry: Registry) -> Label:
    found = reads | items | _brings(node, registry)
    if node.item is not None:
        found |= _gives(node.item, items, TRUSTED, registry)
    if node.type == "agent":
        found |= join(tool.returns for tool in tools_of(node))
    if node.sensitive:
        found |= PRIVATE
    return read_words([word for _, word in node.labels], found) if node.labels else found


def _brings(node: Node, registry: Registry) -> Label:
    known = _BRINGS.get(node.type)
    if known is not None:
        return known
    kind = registry.find(node.type)
    return UNTRUSTED if kind is None or "network" in kind.capabilities else USER


def tools_of(node: Node) -> list[Tool]:
    """The tools of an agent's node, as far as its config is at hand."""
    config = node.config if isinstance(node.config, dict) and node.config_ref is None else {}
    return read_tools(config)


# -- what is said about agents -----------------------------------------------------------------------------------------


class Reach(msgspec.Struct, frozen=True):
    """What an agent can read, and what it can do."""

    agent: str
    label: Label
    """The label of all that the node can have read."""
    sources: dict[str, Label]
    sinks: dict[str, str]
    """The effects of tools that write or send."""

    @property
    def is_lethal(self) -> bool:
        """Whether it can read what strangers write and what is private, and send something: the three together let it be told
        to give away what it knows."""
        return self.label.is_tainted and self.label.is_private and "send" in self.sinks.values()


def find_reaches(ir: IR, registry: Registry, inputs: Label = USER) -> list[Reach]:
    """What each agent of a workflow can read and do."""
    flow = flow_of(ir, registry, inputs)
    by_id = {node.id: node for node in ir.nodes if node is not None}
    found = []
    for node in by_id.values():
        for one, reads in ((node, flow.reads[node.id]), (node.item, flow.items[node.id])):
            if one is None or one.type != "agent":
                continue
            sources: dict[str, Label] = {}
            for reference in one.references:
                name = reference.root if reference.root != "node" else str(reference.node)
                label = _label_of(reference, flow, by_id, inputs, flow.reads[node.id])
                sources[name] = sources.get(name, TRUSTED) | label
            tools = tools_of(one)
            sources |= {f"tool {tool.name}": tool.returns for tool in tools}
            sinks: dict[str, str] = {tool.name: tool.effect for tool in tools if tool.effect != "read"}
            found.append(Reach(node.id, join([reads, *sources.values()]), sources, sinks))
    return found


def find_lethal(ir: IR, registry: Registry) -> Iterator[tuple[str, str, str]]:
    """The agents that a stranger could talk into giving away what is private, as warnings."""
    for reach in find_reaches(ir, registry):
        if not reach.is_lethal:
            continue
        read = ", ".join(name for name, label in reach.sources.items() if label.is_tainted)
        private = ", ".join(name for name, label in reach.sources.items() if label.is_private)
        sends = ", ".join(name for name, effect in reach.sinks.items() if effect == "send")
        message = (
            f"agent '{reach.agent}' reads what strangers write ({read}) and what is private ({private}), and can send ({sends}): a "
            "person is asked before each call; keep the three apart, in agents of their own"
        )
        yield reach.agent, "lethal_trifecta", message


def find_unbounded(ir: IR, registry: Registry) -> Iterator[tuple[str, str, str]]:
    """The agents that a stranger could talk into using up a budget that others need, as warnings (H20)."""
    by_id = {node.id: node for node in ir.nodes if node is not None}
    for reach in find_reaches(ir, registry):
        node = by_id[reach.agent]
        agent = node.item if node.item is not None and node.item.type == "agent" else node
        config = agent.config if isinstance(agent.config, dict) else {}
        if not reach.label.is_tainted or config.get("budget") or agent.config_ref is not None:
            continue
        read = ", ".join(name for name, label in reach.sources.items() if label.is_tainted)
        message = (
            f"agent '{reach.agent}' reads what strangers write ({read}), who could keep it at work, and has no limit of its own; give "
            "it one: budget: {usd: 0.5}, or of calls or tokens"
        )
        yield reach.agent, "no_node_budget", message


def warn_agents(ir: IR, registry: Registry) -> Iterator[tuple[str, str, str]]:
    yield from find_lethal(ir, registry)
    yield from find_unbounded(ir, registry)


def label_in(ir: IR, registry: Registry, node: str, *, is_item: bool, inputs: Label) -> Label:
    """The label of what the config of an agent's node is made of."""
    flow: Any = flow_of(ir, registry, inputs)
    found: Label = (flow.items if is_item else flow.reads).get(node, STRANGE)
    return found
