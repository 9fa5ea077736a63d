"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict


class GroupCount(TypedDict):
    name: str | None
    """The state, workflow or code of the error; null: no error."""
    count: int


class BucketCount(TypedDict):
    at: float
    """The beginning of this stretch of time. Stretches without runs are left out."""
    count: int
    groups: list[GroupCount]


class RunCounts(TypedDict):
    total: int
    capped: bool
    """Whether there are more than were counted."""
    groups: NotRequired[list[GroupCount]]
    buckets: NotRequired[list[BucketCount]]


class RunRefused(TypedDict):
    run_id: str
    code: str
    message: str


class ManyRunsChanged(TypedDict):
    matched: int
    done: int
    refused: list[RunRefused]
