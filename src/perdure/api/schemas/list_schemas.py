"""The types of answers about many runs. See `schemas.py`."""

from __future__ import annotations

from msgspec import UNSET

from perdure.api.schemas.general_schemas import Maybe, View


class GroupCount(View, frozen=True, kw_only=True):
    name: str | None
    """The state, workflow or code of the error; null: no error."""
    count: int


class BucketCount(View, frozen=True, kw_only=True):
    at: float
    """The beginning of this stretch of time. Stretches without runs are left out."""
    count: int
    groups: list[GroupCount]


class RunCounts(View, frozen=True, kw_only=True):
    total: int
    capped: bool
    """Whether there are more than were counted."""
    groups: Maybe[list[GroupCount]] = UNSET
    buckets: Maybe[list[BucketCount]] = UNSET


class RunRefused(View, frozen=True, kw_only=True):
    run_id: str
    code: str
    message: str


class ManyRunsChanged(View, frozen=True, kw_only=True):
    matched: int
    done: int
    refused: list[RunRefused]
