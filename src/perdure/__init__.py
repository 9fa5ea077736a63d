"""Perdure, a durable workflow engine. The public surface is `__all__`; everything else may change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.asks import Approval, AskChanged, Child, Signal, Sleep, Suspended
    from perdure.assets import Asset
    from perdure.chunks import On, Stream, windows
    from perdure.client.clients import AsyncClient, Client
    from perdure.nodes.registry import NodeType
    from perdure.outcomes import Abort, Chosen, ContinueAsNew, Failure, NotDone, RetryLater, StepAmbiguous, StreamBroken
    from perdure.runtime.worker.context import Context
    from perdure.sdk.asks import Decision
    from perdure.sdk.control_flow import Loop, branch, first, loop, switch
    from perdure.sdk.control_flow import map_each as map  # noqa: A004  perdure.map
    from perdure.sdk.declared_triggers import on_event, on_webhook, schedule
    from perdure.sdk.errors import BuildError, RunFailed
    from perdure.sdk.nodes import approval, cel, expr, http, node, secret, transform, wait
    from perdure.sdk.options import Concurrency, Rate, Retry
    from perdure.sdk.runner import ApprovalRequest, Run, arun, run
    from perdure.sdk.stream_arguments import merge, port
    from perdure.sdk.tasks import Task, task
    from perdure.sdk.workflows import Workflow, workflow
    from perdure.sources import Item, Polled, Source
    from perdure.spending import Spent, Usage

__version__ = "0.1.0"

__all__ = [
    "Abort",
    "Approval",
    "ApprovalRequest",
    "AskChanged",
    "Asset",
    "AsyncClient",
    "BuildError",
    "Child",
    "Chosen",
    "Client",
    "Concurrency",
    "Context",
    "ContinueAsNew",
    "Decision",
    "Failure",
    "Item",
    "Loop",
    "NodeType",
    "NotDone",
    "On",
    "Polled",
    "Rate",
    "Retry",
    "RetryLater",
    "Run",
    "RunFailed",
    "Signal",
    "Sleep",
    "Source",
    "Spent",
    "StepAmbiguous",
    "Stream",
    "StreamBroken",
    "Suspended",
    "Task",
    "Usage",
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
    "merge",
    "node",
    "on_event",
    "on_webhook",
    "port",
    "run",
    "schedule",
    "secret",
    "switch",
    "task",
    "transform",
    "wait",
    "windows",
    "workflow",
]

_HOMES = {
    "perdure.asks": ("Approval", "AskChanged", "Child", "Signal", "Sleep", "Suspended"),
    "perdure.assets": ("Asset",),
    "perdure.chunks": ("On", "Stream", "windows"),
    "perdure.client.clients": ("AsyncClient", "Client"),
    "perdure.nodes.registry": ("NodeType",),
    "perdure.outcomes": (
        "Abort",
        "Chosen",
        "ContinueAsNew",
        "Failure",
        "NotDone",
        "RetryLater",
        "StepAmbiguous",
        "StreamBroken",
    ),
    "perdure.runtime.worker.context": ("Context",),
    "perdure.sdk.control_flow": ("Loop", "branch", "first", "loop", "switch"),
    "perdure.sdk.declared_triggers": ("on_event", "on_webhook", "schedule"),
    "perdure.sdk.errors": ("BuildError", "RunFailed"),
    "perdure.sdk.nodes": ("approval", "cel", "expr", "http", "node", "secret", "transform", "wait"),
    "perdure.sdk.options": ("Concurrency", "Rate", "Retry"),
    "perdure.sdk.asks": ("Decision",),
    "perdure.sdk.runner": ("ApprovalRequest", "Run", "arun", "run"),
    "perdure.sdk.stream_arguments": ("merge", "port"),
    "perdure.sdk.tasks": ("Task", "task"),
    "perdure.sdk.workflows": ("Workflow", "workflow"),
    "perdure.sources": ("Item", "Polled", "Source"),
    "perdure.spending": ("Spent", "Usage"),
}
_PLACES = {name: (home, name) for home, names in _HOMES.items() for name in names}
_PLACES["map"] = ("perdure.sdk.control_flow", "map_each")


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that `import perdure` and `perdure --help` stay fast."""
    if name in _PLACES:
        import importlib

        home, known_as = _PLACES[name]
        found = globals()[name] = getattr(importlib.import_module(home), known_as)
        return found
    raise AttributeError(f"module 'perdure' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
