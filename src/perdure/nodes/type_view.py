"""A node type as the command line and the API show it."""

from __future__ import annotations

from typing import Any

from perdure.nodes.registry import NodeType, Registry, Trouble


def type_view(registry: Registry, node_type: NodeType) -> dict[str, Any]:
    return {
        "name": node_type.name,
        "version": node_type.version,
        "description": node_type.description,
        "source": registry.source(node_type.name),
        "runs_on": _place(node_type),
        "capabilities": sorted(node_type.capabilities),
        "aliases": list(node_type.aliases),
        "config_schema": node_type.config_schema,
        "output_schema": node_type.output_schema,
        "example": node_type.example,
        "problem": None,
    }


def trouble_view(trouble: Trouble) -> dict[str, Any]:
    """The view of a type that is installed and cannot be used."""
    return {"name": trouble.name, "source": trouble.source, "problem": trouble.message}


def _place(node_type: NodeType) -> str:
    if node_type.answer is None:
        return "worker"
    return "coordinator" if node_type.handler is None else "coordinator or worker"
