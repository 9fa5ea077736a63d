"""Small values that events, commands and state share. Plain data; no rules."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Error(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why something failed. `code` is stable; `message` is for people."""

    code: str
    message: str = ""
    attempts: int = 0
    details: Any = None
    node: str = ""
    """Of the error of a run: the node that failed, in which iteration of which loop, and which item of a map."""
    scope: tuple[int, ...] = ()
    item: int | None = None

    def as_output(self) -> dict[str, Any]:
        """The one shape error paths see (rule 27)."""
        return {"error": {"code": self.code, "message": self.message, "attempts": self.attempts}}


class Route(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which edges an outcome took, and why. `taken` None means every edge no routing names, as all of them were."""

    rule: str
    taken: tuple[str, ...] | None = None
    back: bool = False
    seen: Any = None
    reasoning: str = ""


class Wait(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a waiting activation waits for."""

    kind: Literal["approval", "timer", "signal", "child", "items", "delay"]
    name: str = ""
    """The approval, timer, signal or child waited for."""
    until: float | None = None
    count: int = 0
    """Items of a map."""
    limit: int = 0
    """How many items may be open at once; 0 is no limit."""
    tolerated: int = 0
    generation: int = 1
    """The child's generation."""


class Undo(msgspec.Struct, omit_defaults=True):
    """The compensation of one activation, under way or done."""

    attempt: int = 0
    failures: int = 0
    state: Literal["planned", "queued", "running", "retrying", "parked", "done"] = "planned"
    started_at: float | None = None


def with_data(checkpoint: Any, data: Any) -> dict[str, Any]:
    """What a handler keeps by itself changes none of its steps."""
    steps = checkpoint["steps"] if isinstance(checkpoint, dict) and checkpoint.keys() == {"data", "steps"} else {}
    return {"data": data, "steps": steps}


def with_step(checkpoint: Any, step: str, result: Any) -> dict[str, Any]:
    """What a handler has kept, with one more step. `data` is what it kept by itself, in whatever form."""
    if isinstance(checkpoint, dict) and checkpoint.keys() == {"data", "steps"}:
        return {"data": checkpoint["data"], "steps": {**checkpoint["steps"], step: result}}
    return {"data": checkpoint, "steps": {step: result}}
