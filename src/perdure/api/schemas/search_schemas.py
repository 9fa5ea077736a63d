"""The types of answers to a search, and of figures about a workflow. See `schemas.py`."""

from __future__ import annotations

from perdure.api.schemas.approval_schemas import Approval
from perdure.api.schemas.general_schemas import RunSummary, View, Workflow


class Found(View, frozen=True, kw_only=True):
    runs: list[RunSummary]
    workflows: list[Workflow]
    approvals: list[Approval]


class VersionStats(View, frozen=True, kw_only=True):
    version: int
    started: int
    open: int
    completed: int
    failed: int
    cancelled: int
    """Runs that were cancelled or rolled back."""
    p50_seconds: float | None
    """How long half of the runs that ended took at most; null: none has ended."""
    p95_seconds: float | None
    last_at: float
    """When the last run was started."""


class WorkflowStats(View, frozen=True, kw_only=True):
    workflow: str
    since: float | None
    capped: bool
    """Whether there are more runs than were looked at."""
    versions: list[VersionStats]
