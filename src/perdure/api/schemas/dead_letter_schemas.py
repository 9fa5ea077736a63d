"""The types of answers about dead letters. See `schemas.py`."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET

from perdure.api.schemas.general_schemas import Error, Maybe, View


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
    workflow: Maybe[str | None] = UNSET
    """The workflow of its run, in lists and alone."""
    trigger: Maybe[str] = UNSET
    """The trigger whose `item` this is: it could start no run."""


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


class DeadLetterGroup(View, frozen=True, kw_only=True):
    workflow: str | None
    node: str
    code: str | None
    """The code of the error."""
    count: int
    oldest_at: float
    newest_at: float


class DeadLetterCounts(View, frozen=True, kw_only=True):
    total: int
    capped: bool
    """Whether there are more than were counted."""
    groups: list[DeadLetterGroup]


class ChangeRefused(View, frozen=True, kw_only=True):
    dead_letter_id: str
    code: str
    message: str


class ManyChanged(View, frozen=True, kw_only=True):
    matched: int
    done: int
    refused: list[ChangeRefused]
