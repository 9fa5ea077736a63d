"""The types of answers about approvals. See `schemas.py`."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET

from perdure.api.schemas.general_schemas import Difference, Maybe, View


class Notify(View, frozen=True, kw_only=True):
    url: str
    secret: str
    """The name of the secret that signs the notification."""


class Approval(View, frozen=True, kw_only=True):
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
    notify: Maybe[Notify] = UNSET
    """The other system that is told of the approval."""
    workflow: Maybe[str | None] = UNSET
    """The workflow of its run; in lists and alone, as the next four fields."""
    version: Maybe[int | None] = UNSET
    by: Maybe[str | None] = UNSET
    """The principal that started the run."""
    can_decide: Maybe[bool] = UNSET
    """Whether you may decide it."""
    why_not: Maybe[str | None] = UNSET
    """`already_decided`, `forbidden`, `not_asked`, `already_voted` or `own_request`."""


class ApprovalPage(View, frozen=True, kw_only=True):
    items: list[Approval]
    next_cursor: str | None


class Ballot(View, frozen=True, kw_only=True, rename={"for_": "for"}):
    by: str
    """The principal that voted."""
    for_: str
    """The entry of `approvers` that the vote counts for: the voter's own name, or a role."""
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
    """The differences between what was shown and `data`."""
    not_made: str | None
    """Why the call of an agent was not made although it was approved: what approvers changed does not fit, or is not allowed."""
    notification: Notification | None
    """Whether the other system was told of the approval, or why not."""


class ApprovalLinks(View, frozen=True, kw_only=True):
    approval_id: str
    approver: str
    expires_at: float
    approve: str
    reject: str
