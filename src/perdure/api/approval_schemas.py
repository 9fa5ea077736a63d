"""What answers about approvals look like, as types. See `schemas.py`."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET

from perdure.api.schemas import Difference, Maybe, View


class Notify(View, frozen=True, kw_only=True):
    url: str
    secret: str
    """The name of the secret that signs."""


class Approval(View, frozen=True, kw_only=True):
    approval_id: str
    run_id: str
    node: str
    state: Literal["pending", "decided"]
    requested_at: float
    expires_at: float | None
    decided_at: float | None
    approvers: list[str]
    """Empty: anyone."""
    quorum: int
    votes: dict[str, str]
    on_timeout: str
    escalated: bool
    shown: Any
    scope: list[int]
    comments: str
    notify: Maybe[Notify] = UNSET
    """The other system that is told."""


class ApprovalPage(View, frozen=True, kw_only=True):
    items: list[Approval]
    next_cursor: str | None


class Ballot(View, frozen=True, kw_only=True, rename={"for_": "for"}):
    by: str
    """Who voted."""
    for_: str
    """The entry of `approvers` it counts for: the same, or a role."""
    decision: Literal["approve", "reject"]
    at: float
    comments: str
    data: Any


class Delegation(View, frozen=True, kw_only=True):
    approver: str
    to: str
    by: str
    at: float
    comments: str


class Notification(View, frozen=True, kw_only=True):
    state: Literal["waiting", "delivered", "failed", "stopped"]
    attempts: int
    delivered_at: float | None
    next_at: float | None
    last_error: str | None


class ApprovalDetails(Approval, frozen=True, kw_only=True):
    form: Any
    escalate_to: Maybe[list[str]] = UNSET
    ballots: list[Ballot]
    delegations: list[Delegation]
    decision: Literal["approve", "reject", "timeout", "cancelled"] | None
    decided_by: str | None
    data: Any
    changes: list[Difference]
    """From what was shown to `data`."""
    notification: Notification | None
    """Whether the other system was told, or why not."""


class ApprovalLinks(View, frozen=True, kw_only=True):
    approval_id: str
    approver: str
    expires_at: float
    approve: str
    reject: str
