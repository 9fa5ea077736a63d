"""What node types there are, and the two ways a type can work. One registry for built-in and third-party types.

A *worker type* has a handler that a worker calls. A *coordinator type* is trivial: it answers at once from its rendered
config, in the append that made the node ready, with no task and no second commit (PROTOCOL 28).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from weft.kernel.values import Wait


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One activation of a coordinator type, with its config rendered."""

    run_id: str
    node: str
    config: Any
    run_inputs: Any
    inputs: dict[str, Any]
    """The outputs of the taken edges, by node."""
    at: float
    undo: bool = False


class Done(msgspec.Struct, frozen=True):
    output: Any


class Failed(msgspec.Struct, frozen=True):
    code: str
    message: str


class Suspended(msgspec.Struct, frozen=True, kw_only=True):
    """The node waits: for a person, a time, a signal, a child run or its items."""

    wait: Wait
    approvers: tuple[str, ...] = ()
    quorum: int = 1
    on_timeout: str = "reject"
    escalate_to: tuple[str, ...] = ()
    timeout_seconds: float | None = None
    shown: Any = None
    form: Any = None
    workflow: str = ""
    inputs: Any = None


Answer = Done | Failed | Suspended


class Handler(Protocol):
    """What a worker type does. `ctx` is the worker's context: run id, attempt, idempotency key, checkpoints, …"""

    def __call__(self, config: Any, ctx: Any) -> Awaitable[Any]: ...


class NodeType(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    config_schema: dict[str, Any] = {}
    version: str = "1"
    answer: Callable[[Call], Answer] | None = None
    """Coordinator types: what the activation comes to."""
    handler: Handler | None = None
    """Worker types: what a worker calls."""
    raw_keys: tuple[str, ...] = ()
    """Top-level config keys that are not rendered when the node is dispatched (a map's inner node)."""


class Registry:
    def __init__(self) -> None:
        self._types: dict[str, NodeType] = {}

    def add(self, node_type: NodeType) -> None:
        if (node_type.answer is None) == (node_type.handler is None):
            raise ValueError(f"node type {node_type.name!r} needs either an answer or a handler")
        if node_type.name in self._types:
            raise ValueError(f"node type {node_type.name!r} is registered twice")
        self._types[node_type.name] = node_type

    def find(self, name: str) -> NodeType | None:
        return self._types.get(name)

    def names(self) -> list[str]:
        return sorted(self._types)

    def __iter__(self) -> Any:
        return iter(self._types[name] for name in self.names())
