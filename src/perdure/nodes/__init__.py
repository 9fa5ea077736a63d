"""Built-in node types, one file each, registered exactly as a third party's would be: a module with a `TYPE`."""

from __future__ import annotations

import importlib

from perdure.nodes.plugins import Plugins, find_installed
from perdure.nodes.registry import Registry

BUILTIN = tuple(
    "agent classifier function http human input llm map output search task transform trigger wait what_if workflow".split()
)
_ELSEWHERE = {"agent": "perdure.agents.agent_node", "what_if": "perdure.agents.what_if.what_if_node"}
"""Types that do not stand in a file of this folder."""


def builtin() -> Registry:
    """A new registry with every built-in type."""
    return _fill(Registry())


def installed() -> Registry:
    """A new registry with every built-in type and those that installed distributions bring."""
    return _fill(Registry(Plugins(find_installed)))


def _fill(registry: Registry) -> Registry:
    for name in BUILTIN:
        registry.add(importlib.import_module(_ELSEWHERE.get(name, f"{__name__}.{name}")).TYPE)
    return registry
