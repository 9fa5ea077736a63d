"""Weft, a durable workflow engine. The public surface is `__all__`; everything else may change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.client.clients import AsyncClient, Client
    from weft.nodes.registry import NodeType
    from weft.outcomes import Abort, Failure, NotDone, RetryLater
    from weft.runtime.context import Context
    from weft.sdk.control import Loop, branch, first, loop, switch
    from weft.sdk.control import map_each as map  # noqa: A004  weft.map
    from weft.sdk.errors import BuildError, RunFailed
    from weft.sdk.nodes import approval, cel, expr, http, node, secret, transform, wait
    from weft.sdk.options import Retry
    from weft.sdk.running import Approval, Decision, Run, arun, run
    from weft.sdk.tasks import Task, task
    from weft.sdk.workflows import Workflow, workflow

__version__ = "0.1.0"

__all__ = [
    "Abort",
    "Approval",
    "AsyncClient",
    "BuildError",
    "Client",
    "Context",
    "Decision",
    "Failure",
    "Loop",
    "NodeType",
    "NotDone",
    "Retry",
    "RetryLater",
    "Run",
    "RunFailed",
    "Task",
    "Workflow",
    "__version__",
    "approval",
    "arun",
    "branch",
    "cel",
    "expr",
    "first",
    "http",
    "loop",
    "map",
    "node",
    "run",
    "secret",
    "switch",
    "task",
    "transform",
    "wait",
    "workflow",
]

_HOMES = {
    "weft.client.clients": ("AsyncClient", "Client"),
    "weft.nodes.registry": ("NodeType",),
    "weft.outcomes": ("Abort", "Failure", "NotDone", "RetryLater"),
    "weft.runtime.context": ("Context",),
    "weft.sdk.control": ("Loop", "branch", "first", "loop", "switch"),
    "weft.sdk.errors": ("BuildError", "RunFailed"),
    "weft.sdk.nodes": ("approval", "cel", "expr", "http", "node", "secret", "transform", "wait"),
    "weft.sdk.options": ("Retry",),
    "weft.sdk.running": ("Approval", "Decision", "Run", "arun", "run"),
    "weft.sdk.tasks": ("Task", "task"),
    "weft.sdk.workflows": ("Workflow", "workflow"),
}
_PLACES = {name: (home, name) for home, names in _HOMES.items() for name in names}
_PLACES["map"] = ("weft.sdk.control", "map_each")


def __getattr__(name: str) -> Any:
    """Loaded on first use: `import weft` and `weft --help` stay fast."""
    if name in _PLACES:
        import importlib

        home, known_as = _PLACES[name]
        found = globals()[name] = getattr(importlib.import_module(home), known_as)
        return found
    raise AttributeError(f"module 'weft' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
