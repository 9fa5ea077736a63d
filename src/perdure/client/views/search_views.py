"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import TypedDict

from perdure.client.views.approval_views import Approval
from perdure.client.views.general_views import RunSummary, Workflow


class Found(TypedDict):
    runs: list[RunSummary]
    workflows: list[Workflow]
    approvals: list[Approval]


class VersionStats(TypedDict):
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


class WorkflowStats(TypedDict):
    workflow: str
    since: float | None
    capped: bool
    """Whether there are more runs than were looked at."""
    versions: list[VersionStats]
