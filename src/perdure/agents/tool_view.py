"""The context of a function that an agent calls as a tool. It must not ask or make steps: the call itself is a step."""

from __future__ import annotations

from typing import Any

_GIVEN = (
    "run_id",
    "node",
    "tenant",
    "scope",
    "item",
    "attempt",
    "correlation_id",
    "device",
    "log",
    "cancelled",
    "heartbeat",
)


class ToolView:
    """What a tool may ask of the worker that runs it: the ids, the log, and a key of its own."""

    __slots__ = ("_ctx", "idempotency_key")
    __perdure_context__ = True

    def __init__(self, ctx: Any, key: str) -> None:
        self._ctx = ctx
        self.idempotency_key: str = ctx.key(key)
        """The same whenever this call is made again with the same arguments."""

    def key(self, name: str) -> str:
        """A further key, for a tool that makes several calls."""
        return f"{self.idempotency_key}/{name}"

    def __getattr__(self, name: str) -> Any:
        if name in _GIVEN:
            return getattr(self._ctx, name)
        raise AttributeError(
            f"a tool's context has no {name!r}: a call is one step, which neither asks nor makes others"
        )


class PipelineView:
    """What the steps of a pipeline need of the worker, with keys of their call."""

    __slots__ = ("key", "run_in_thread", "tenant")

    def __init__(self, ctx: Any, view: ToolView) -> None:
        self.tenant = ctx.tenant
        self.run_in_thread = ctx.run_in_thread
        self.key = view.key
