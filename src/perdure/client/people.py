"""What waits for people: approvals to decide, dead letters to try again or to give up."""

from __future__ import annotations

from typing import Any, Literal

from perdure.client import views as v
from perdure.client.operations import AsyncNoun, Call, Noun, Page, get, given, listing, operation, post

PAGE = 100


class ApprovalsCalls:
    """Every operation on approvals, described once. The owner of the API key is the one who decides."""

    @listing
    def list(
        self,
        *,
        state: Literal["pending", "decided"] | None = None,
        run_id: str | None = None,
        limit: int = PAGE,
        cursor: str | None = None,
    ) -> Call[Page[v.Approval]]:
        """The approvals, oldest first."""
        return get("approvals", state=state, run_id=run_id, limit=limit, cursor=cursor)

    @operation
    def get(self, approval_id: str) -> Call[v.ApprovalDetails]:
        """An approval with its form, every vote, and what the approvers changed of what they were shown."""
        return get("approvals", approval_id)

    @operation
    def decide(
        self,
        approval_id: str,
        decision: Literal["approve", "reject"],
        *,
        comments: str = "",
        data: Any = None,
        approver: str | None = None,
    ) -> Call[v.Approval]:
        """Vote on an approval. `data` is what the form asks for; `approver` names the person who votes, where the
        server has no authentication."""
        body = {"decision": decision, "comments": comments, **given(data=data, approver=approver)}
        return post("approvals", approval_id, "decide", body=body)

    @operation
    def delegate(
        self, approval_id: str, to: str, *, comments: str = "", approver: str | None = None
    ) -> Call[v.Approval]:
        """Let another person decide in the caller's place. The quorum stays, and so do the votes of the others."""
        body = {"to": to, "comments": comments, **given(approver=approver)}
        return post("approvals", approval_id, "delegate", body=body)

    @operation
    def make_links(
        self, approval_id: str, approver: str, *, expires_seconds: float | None = None
    ) -> Call[v.ApprovalLinks]:
        """Links by which one approver decides, each good for one use."""
        body = {"approver": approver, **given(expires_seconds=expires_seconds)}
        return post("approvals", approval_id, "links", body=body)


class DeadLettersCalls:
    """Every operation on dead letters, described once."""

    @listing
    def list(
        self,
        *,
        state: Literal["pending", "requeued", "discarded"] | None = None,
        run_id: str | None = None,
        limit: int = PAGE,
        cursor: str | None = None,
    ) -> Call[Page[v.DeadLetter]]:
        """The dead letters, oldest first."""
        return get("dead-letters", state=state, run_id=run_id, limit=limit, cursor=cursor)

    @operation
    def get(self, dead_letter_id: str) -> Call[v.DeadLetterDetails]:
        return get("dead-letters", dead_letter_id)

    @operation
    def requeue(self, dead_letter_id: str, *, config: Any = None) -> Call[v.DeadLetter]:
        """Try the parked work again, with another config for its node if one is given."""
        return post("dead-letters", dead_letter_id, "requeue", body=given(config=config))

    @operation
    def discard(self, dead_letter_id: str, *, as_: Literal["skip", "fail", "continue"] = "skip") -> Call[v.DeadLetter]:
        """Give the parked work up: as skipped, as failed, or as failed while the run continues."""
        return post("dead-letters", dead_letter_id, "discard", body={"as": as_})

    @operation
    def requeue_many(
        self,
        *,
        run_id: str | None = None,
        node: str | None = None,
        code: str | None = None,
        expected: int | None = None,
    ) -> Call[v.ManyChanged]:
        """Requeue all dead letters that match. Without `expected` they are only counted; with it, they are requeued if
        exactly so many match."""
        body = given(run_id=run_id, node=node, code=code, expected=expected)
        return post("dead-letters", "requeue", body=body, repeatable=expected is None)

    @operation
    def discard_many(
        self,
        *,
        run_id: str | None = None,
        node: str | None = None,
        code: str | None = None,
        expected: int | None = None,
        as_: Literal["skip", "fail", "continue"] = "skip",
    ) -> Call[v.ManyChanged]:
        """Discard all dead letters that match. Without `expected` they are only counted; with it, they are discarded if
        exactly so many match."""
        body = {"as": as_, **given(run_id=run_id, node=node, code=code, expected=expected)}
        return post("dead-letters", "discard", body=body, repeatable=expected is None)


class Approvals(ApprovalsCalls, Noun):
    __doc__ = ApprovalsCalls.__doc__


class AsyncApprovals(ApprovalsCalls, AsyncNoun):
    __doc__ = ApprovalsCalls.__doc__


class DeadLetters(DeadLettersCalls, Noun):
    __doc__ = DeadLettersCalls.__doc__


class AsyncDeadLetters(DeadLettersCalls, AsyncNoun):
    __doc__ = DeadLettersCalls.__doc__
