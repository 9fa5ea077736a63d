"""Built-in node types, one file each, registered exactly as a third party's would be: a module with a `TYPE`."""

from __future__ import annotations

import importlib

from weft.nodes.registry import Registry

BUILTIN = ("human", "input", "map", "output", "task", "transform", "wait", "workflow")


def builtin() -> Registry:
    """A new registry with every built-in type."""
    registry = Registry()
    for name in BUILTIN:
        registry.add(importlib.import_module(f"{__name__}.{name}").TYPE)
    return registry
