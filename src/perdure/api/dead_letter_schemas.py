"""The types of answers about dead letters. See `schemas.py`."""

from __future__ import annotations

from typing import Any, Literal

from perdure.api.schemas import Error, View


class DeadLetter(View, frozen=True, kw_only=True):
    dead_letter_id: str
    run_id: str
    node: str
    state: Literal["pending", "requeued", "discarded"]
    created_at: float
    resolved_at: float | None
    reprocessed_at: float | None
    scope: list[int]
    item: int | None
    attempt: int
    undo: bool
    error: Error | None
    by: str | None
    """The principal that requeued or discarded the dead letter."""


class DeadLetterDetails(DeadLetter, frozen=True, kw_only=True):
    config: Any
    """The rendered config of the node; secrets and sensitive fields are masked."""
    inputs: Any
    """The outputs of the nodes before it, by name; one that is stored as a blob is `{"$ref": "cas://…"}`."""
    problem: str | None
    """Why `config` and `inputs` cannot be shown."""


class DeadLetterPage(View, frozen=True, kw_only=True):
    items: list[DeadLetter]
    next_cursor: str | None


class ChangeRefused(View, frozen=True, kw_only=True):
    dead_letter_id: str
    code: str
    message: str


class ManyChanged(View, frozen=True, kw_only=True):
    matched: int
    done: int
    refused: list[ChangeRefused]
