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
    """The node that failed, for the error of a run; `scope` and `item` say in which iteration and for which item."""
    scope: tuple[int, ...] = ()
    item: int | None = None

    def as_output(self) -> dict[str, Any]:
        """The error as error paths see it, always in this shape (rule 27)."""
        return {"error": {"code": self.code, "message": self.message, "attempts": self.attempts}}


class Route(msgspec.Struct, frozen=True, omit_defaults=True):
    """The edges an outcome took, and why. `taken` None means every edge, none of them being named by routing."""

    rule: str
    taken: tuple[str, ...] | None = None
    back: bool = False
    seen: Any = None
    reasoning: str = ""


class Wait(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a waiting activation waits for."""

    kind: Literal["approval", "timer", "signal", "child", "items", "delay", "trigger"]
    name: str = ""
    """The name of the approval, timer, signal or child waited for."""
    until: float | None = None
    count: int = 0
    """How many items a map has."""
    limit: int = 0
    """How many items may be open at once; 0 is no limit."""
    tolerated: int = 0
    generation: int = 1
    """The generation of the child."""


class Fired(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True):
    """Which firing of a trigger started a run."""

    trigger: str
    """The id of the trigger: of the first of the runs that are the trigger."""
    number: int
    """The number of the item; of the last one, where a run was started for several."""
    depth: int = 1
    """How many triggers led to this run, each by a run of the one before."""
    report: bool = True
    """Whether the trigger counts the run as open and hears of its end."""


class Undo(msgspec.Struct, omit_defaults=True):
    """The compensation of one activation, under way or done."""

    attempt: int = 0
    failures: int = 0
    state: Literal["planned", "queued", "running", "retrying", "parked", "done"] = "planned"
    started_at: float | None = None
    error: Error | None = None
    """Why it was parked."""


def with_data(checkpoint: Any, data: Any) -> dict[str, Any]:
    """The checkpoint with new data of the handler's own; its steps stay."""
    steps = checkpoint["steps"] if isinstance(checkpoint, dict) and checkpoint.keys() == {"data", "steps"} else {}
    return {"data": data, "steps": steps}


def with_step(checkpoint: Any, step: str, result: Any) -> dict[str, Any]:
    """The checkpoint with the result of one more step. `data` is what the handler kept by itself, in whatever form."""
    if isinstance(checkpoint, dict) and checkpoint.keys() == {"data", "steps"}:
        return {"data": checkpoint["data"], "steps": {**checkpoint["steps"], step: result}}
    return {"data": checkpoint, "steps": {step: result}}
