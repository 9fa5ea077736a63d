"""Events about steps that begin by leave of the journal: they may happen at most once, or cost something (rules 81, 82)."""

from __future__ import annotations

from typing import ClassVar, Literal

from perdure.kernel.event_base import NodeEvent
from perdure.model.money import Budget, Usage


class StepStarted(NodeEvent, frozen=True, kw_only=True, tag="step.started"):
    """A step begins. If it may happen at most once, from here on only its result, or a person, says what became of it."""

    VERSION: ClassVar[int] = 2
    step: str
    wish: str
    """The name of the worker's wish to begin it: an answer is to it and to no other."""
    worker: str = ""
    effect: Literal["idempotent", "at_most_once"] = "at_most_once"
    reserve: Usage | None = None
    """What it may use, and what of the budget is set aside for it; in version 2 only, as the next two."""
    model: str = ""
    """What the usage is counted under besides the node: the model that is called, for example."""
    limit: Budget | None = None
    """What the node allows the activation."""


class StepReleased(NodeEvent, frozen=True, kw_only=True, tag="step.released"):
    """A step that had begun certainly did not happen, and may begin again."""

    step: str
