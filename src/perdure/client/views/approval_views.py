"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from perdure.client.views.general_views import Difference


class Notify(TypedDict):
    url: str
    secret: str
    """The name of the secret that signs the notification."""


class Approval(TypedDict):
    approval_id: str
    run_id: str
    node: str
    state: Literal["pending", "decided"]
    requested_at: float
    expires_at: float | None
    decided_at: float | None
    approvers: list[str]
    """Who may decide; empty if anyone may."""
    quorum: int
    votes: dict[str, str]
    on_timeout: str
    escalated: bool
    shown: Any
    scope: list[int]
    comments: str
    notify: NotRequired[Notify]
    """The other system that is told of the approval."""
    workflow: NotRequired[str | None]
    """The workflow of its run; in lists and alone, as the next four fields."""
    version: NotRequired[int | None]
    by: NotRequired[str | None]
    """The principal that started the run."""
    can_decide: NotRequired[bool]
    """Whether you may decide it."""
    why_not: NotRequired[str | None]
    """`already_decided`, `forbidden`, `not_asked`, `already_voted` or `own_request`."""


Ballot = TypedDict(
    "Ballot",
    {"by": str, "for": str, "decision": Literal["approve", "reject"], "at": float, "comments": str, "data": Any},
)


class Delegation(TypedDict):
    approver: str
    to: str
    by: str
    at: float
    comments: str


class Notification(TypedDict):
    state: Literal["waiting", "delivered", "failed", "stopped"]
    attempts: int
    delivered_at: float | None
    next_at: float | None
    last_error: str | None


class ApprovalDetails(Approval):
    form: Any
    escalate_to: NotRequired[list[str]]
    ballots: list[Ballot]
    delegations: list[Delegation]
    decision: Literal["approve", "reject", "timeout", "cancelled"] | None
    decided_by: str | None
    data: Any
    changes: list[Difference]
    """The differences between what was shown and `data`."""
    not_made: str | None
    """Why the call of an agent was not made although it was approved: what approvers changed does not fit, or is not allowed."""
    notification: Notification | None
    """Whether the other system was told of the approval, or why not."""


class ApprovalLinks(TypedDict):
    approval_id: str
    approver: str
    expires_at: float
    approve: str
    reject: str
