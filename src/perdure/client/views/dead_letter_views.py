"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from perdure.client.views.general_views import Error


class DeadLetter(TypedDict):
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
    workflow: NotRequired[str | None]
    """The workflow of its run, in lists and alone."""
    trigger: NotRequired[str]
    """The trigger whose `item` this is: it could start no run."""


class DeadLetterDetails(DeadLetter):
    config: Any
    """The rendered config of the node; secrets and sensitive fields are masked."""
    inputs: Any
    """The outputs of the nodes before it, by name; one that is stored as a blob is `{"$ref": "cas://…"}`."""
    problem: str | None
    """Why `config` and `inputs` cannot be shown."""


class DeadLetterGroup(TypedDict):
    workflow: str | None
    node: str
    code: str | None
    """The code of the error."""
    count: int
    oldest_at: float
    newest_at: float


class DeadLetterCounts(TypedDict):
    total: int
    capped: bool
    """Whether there are more than were counted."""
    groups: list[DeadLetterGroup]


class ChangeRefused(TypedDict):
    dead_letter_id: str
    code: str
    message: str


class ManyChanged(TypedDict):
    matched: int
    done: int
    refused: list[ChangeRefused]
