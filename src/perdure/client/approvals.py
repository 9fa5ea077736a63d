"""Approvals: what waits for a person, and the person's answer."""

from __future__ import annotations

from typing import Any, Literal

from perdure.client import views as v
from perdure.client.http_calls import Call, get, given, post
from perdure.client.operations import AsyncNoun, Noun, Page, listing, operation

PAGE = 100


class ApprovalsCalls:
    """Every operation on approvals, described once. The owner of the API key is the one who decides."""

    @listing
    def list(
        self,
        *,
        state: Literal["pending", "decided"] | None = None,
        run_id: str | None = None,
        workflow: str | None = None,
        node: str | None = None,
        expires_before: float | str | None = None,
        mine: bool = False,
        limit: int = PAGE,
        cursor: str | None = None,
    ) -> Call[Page[v.Approval]]:
        """The approvals, oldest first, each with whether the caller may decide it; with `mine`, only pending ones that the
        caller may. With that, a workflow, a node or a time a page may be short."""
        about = {"state": state, "run_id": run_id, "workflow": workflow, "node": node, "expires_before": expires_before}
        return get("approvals", **about, mine=True if mine else None, limit=limit, cursor=cursor)

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
        by: str | None = None,
    ) -> Call[v.Approval]:
        """Vote on an approval. `data` is what the form asks for; `by` names the person who votes, where the
        server has no authentication."""
        body = {"decision": decision, "comments": comments, **given(data=data, approver=by)}
        return post("approvals", approval_id, "decide", body=body)

    @operation
    def delegate(self, approval_id: str, to: str, *, comments: str = "", by: str | None = None) -> Call[v.Approval]:
        """Let another person decide in the caller's place. The quorum stays, and so do the votes of the others."""
        body = {"to": to, "comments": comments, **given(approver=by)}
        return post("approvals", approval_id, "delegate", body=body)

    @operation
    def make_links(
        self, approval_id: str, approver: str, *, expires_seconds: float | None = None
    ) -> Call[v.ApprovalLinks]:
        """Links by which one approver decides, each good for one use."""
        body = {"approver": approver, **given(expires_seconds=expires_seconds)}
        return post("approvals", approval_id, "links", body=body)


class Approvals(ApprovalsCalls, Noun):
    __doc__ = ApprovalsCalls.__doc__


class AsyncApprovals(ApprovalsCalls, AsyncNoun):
    __doc__ = ApprovalsCalls.__doc__
