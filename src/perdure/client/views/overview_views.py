"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import TypedDict

from perdure.client.views.approval_views import Approval
from perdure.client.views.general_views import RunSummary


class WaitingApprovals(TypedDict):
    total: int
    """How many wait that you may decide."""
    capped: bool
    items: list[Approval]
    """The next to expire."""


class LetterGroup(TypedDict):
    workflow: str | None
    code: str | None
    """The code of the error."""
    count: int
    oldest_at: float


class WaitingLetters(TypedDict):
    total: int
    capped: bool
    groups: list[LetterGroup]


class DesertedQueue(TypedDict):
    queue: str
    waiting: int
    """The tasks that wait in the queue, and the nodes that are held for it."""


class WorkflowCount(TypedDict):
    workflow: str
    count: int


class RunsByWorkflow(TypedDict):
    total: int
    capped: bool
    groups: list[WorkflowCount]


class QuarantinedRun(TypedDict):
    run_id: str
    workflow: str
    version: int
    reason: str


class QuarantinedRuns(TypedDict):
    total: int
    capped: bool
    items: list[QuarantinedRun]


class NearDeadline(TypedDict):
    run_id: str
    workflow: str
    version: int
    deadline_at: float


class NearDeadlines(TypedDict):
    total: int
    capped: bool
    items: list[NearDeadline]


class Stretch(TypedDict):
    at: float
    """The beginning of this stretch of time."""
    started: int
    ended: int
    failed: int
    """How many of those that ended failed."""


class FailingWorkflow(TypedDict):
    workflow: str
    failed: int
    ended: int


class SlowWorkflow(TypedDict):
    workflow: str
    ended: int
    p95_seconds: float
    """How long 95 of 100 of its runs took at most."""


class Overview(TypedDict):
    approvals: WaitingApprovals | None
    """What you may decide; null, as the other parts, if you may not read it."""
    dead_letters: WaitingLetters | None
    deserted: list[DesertedQueue]
    """Queues in which tasks wait and to which no worker listens; empty without the permission `system:operate`."""
    failed: RunsByWorkflow | None
    """Runs that failed in the last 24 hours."""
    paused: RunsByWorkflow | None
    quarantined: QuarantinedRuns | None
    """Quarantined runs among the newest 1,000 open ones."""
    deadlines: NearDeadlines | None
    """Runs whose deadline is within the hour, next first."""
    buckets: list[Stretch]
    failing: list[FailingWorkflow]
    """The workflows of which most runs failed in the span."""
    slowest: list[SlowWorkflow]
    """The workflows whose runs took longest, of the newest 1,000 that ended in the span."""
    capped: bool
    """Whether more runs ended than were looked at for `slowest`."""
    newest: list[RunSummary]
