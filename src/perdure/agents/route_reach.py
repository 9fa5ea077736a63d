"""What may happen behind a route of an agent before people are asked: found from the graph, as far as types and configs say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perdure.agents.label_flow import tools_of
from perdure.model.ir import IR, Node, is_approval
from perdure.nodes.registry import Registry

_ASKS = frozenset({"GET", "HEAD", "OPTIONS"})


def find_sinks(ir: IR, registry: Registry, targets: Iterable[int]) -> tuple[str, ...]:
    """The targets behind which something may be written or sent before a node of type `human`."""
    known: dict[tuple[int, ...], tuple[str, ...]] = ir.__dict__.setdefault("route_sinks", {})
    wanted = tuple(targets)
    if wanted not in known:
        known[wanted] = tuple(
            node.id for one in wanted if (node := ir.nodes[one]) is not None and _acts(ir, registry, one)
        )
    return known[wanted]


def routes_of(ir: IR, registry: Registry, agent: str) -> dict[str, str]:
    """The routes of an agent behind which something may be written or sent, and that it may do so by choosing them."""
    node = ir.nodes[ir.numbers[agent]]
    if node is None or node.branch is None or node.branch.kind != "agent_driven":
        return {}
    return {f"route {name}": "send" for name in find_sinks(ir, registry, node.branch.available)}


def _acts(ir: IR, registry: Registry, first: int) -> bool:
    """Whether something behind a node, or it itself, writes or sends before people are asked."""
    seen, found = {first}, [first]
    while found:
        node = ir.nodes[found.pop()]
        if node is None or is_approval(node):
            continue
        if _writes(node, registry) or (node.item is not None and _writes(node.item, registry)):
            return True
        after = [ir.edges[edge].target for edge in node.edges_out]
        after += [] if node.loop is None else [node.loop.head]
        found += [one for one in after if one not in seen]
        seen.update(after)
    return False


def _writes(node: Node, registry: Registry) -> bool:
    """Whether a node may write or send. Of a config that is not at hand, and of a type that is not known here, nothing is known."""
    config: Any = node.config if isinstance(node.config, dict) else {}
    if node.config_ref is not None:
        return True
    if node.type == "agent":  # it has not read what the one before it has
        return any(tool.effect != "read" for tool in tools_of(node))
    if node.type == "http":
        return str(config.get("method", "GET")).upper() not in _ASKS
    if node.type == "transform":
        steps = config.get("pipeline")
        return isinstance(steps, list) and any(
            isinstance(one, dict) and one.get("step") == "http_request" for one in steps
        )
    kind = registry.find(node.type)
    if node.type == "task":
        return node.effect != "pure" and bool(config)
    return kind is None or (bool({"effect", "children"} & kind.capabilities) and node.item is None)
