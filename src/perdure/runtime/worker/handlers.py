"""The handlers of a worker, by node type. Each is loaded when first asked for, so that unused ones cost nothing.

It owns what a worker knows of a type: the handler, how it is called, and what a config must look like. It must not know
tasks or attempts.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from perdure.nodes.config_checks import explain_rendered
from perdure.nodes.registry import Handler, Registry
from perdure.nodes.shared_values import CLOSE_SECONDS, Opener
from perdure.transport import Task

_log = logging.getLogger(__name__)
_MOST_PASSED = 256


class Found(NamedTuple):
    handler: Handler
    is_async: bool
    check: Callable[[Any], str]
    """Says what is wrong with a rendered config; gives "" when nothing is."""
    inputs_on_demand: bool
    opener: Opener | None = None
    """How what its attempts share is opened; None if they share nothing."""


class Handlers(Mapping[str, Found]):
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._found: dict[str, Found] = {}
        self._passed: dict[tuple[str, int], Any] = {}
        """Configs that fit their node type, by the type and their place in memory."""
        registry.worker_names()  # installed types are looked up now, not by the first heartbeat

    def __getitem__(self, name: str) -> Found:
        found = self._found.get(name)
        if found is None:
            node_type = self._registry.find(name)
            if node_type is None or node_type.handler is None:
                raise KeyError(name)
            handler = node_type.handler
            check = functools.partial(explain_rendered, node_type)
            is_async = inspect.iscoroutinefunction(handler)
            found = self._found[name] = Found(handler, is_async, check, node_type.inputs_on_demand, node_type.opener)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._registry.worker_names())

    def __len__(self) -> int:
        return len(self._registry.worker_names())

    def check_config(self, task: Task, found: Found, config: Any, *, opened: bool) -> str:
        """What is wrong with the config of a task, as its handler gets it; empty if nothing is. One without templates is the same
        object for each attempt of its node while that has its coordinator in this process, and is looked at once. `opened`:
        something in it was sealed."""
        name = task.type, id(task.config)
        if self._passed.get(name) is task.config and task.config is not None:
            return ""
        problem = found.check(config)
        if not problem and not opened:
            if len(self._passed) >= _MOST_PASSED:
                self._passed.clear()
            self._passed[name] = task.config
        return problem

    def explain(self, name: str) -> str:
        """Why this worker has no handler of this name."""
        if self._registry.is_broken(name):
            return self._registry.explain(name)
        known = ", ".join(self) or "none"
        return (
            f"this worker has no node type {name!r} (it has: {known}); install it where the worker runs, or give the node "
            "a queue whose workers have it"
        )

    async def close(self) -> None:
        """Let each loaded node type close what its handlers share."""
        for node_type in self._registry.loaded():
            if node_type.close is not None and node_type.open is None:
                try:
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await node_type.close()
                except Exception:  # noqa: BLE001  whatever a type does, the worker ends
                    _log.exception("node type %s could not be closed", node_type.name)
