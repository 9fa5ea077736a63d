"""Approvals over HTTP. A GET never decides. What each does is in `perdure.service.approvals`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from perdure.access import Permission
from perdure.api.endpoints import Call, Routes
from perdure.api.parameters import Limit, Text, moment
from perdure.api.request_reader import Body, Query
from perdure.api.schemas import approval_schemas as s
from perdure.service.approvals import LONGEST_COMMENTS

routes = Routes("approvals")
Id = Annotated[str, Meta(description="Only those of this run.", max_length=1000)]
DAY = 86_400.0


class ListApprovals(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    state: Literal["pending", "decided"] | None = None
    run_id: Id | None = None
    workflow: Text | None = None
    node: Annotated[str, Meta(max_length=200)] | None = None
    expires_before: (
        Annotated[str, Meta(description="Its time ends before then: seconds since 1970, or RFC 3339.")] | None
    ) = None
    mine: Annotated[bool, Meta(description="Only pending ones that you may decide.")] = False
    limit: Limit = 100
    cursor: Text | None = None


@routes.get("/approvals", Permission.APPROVALS_READ, s.ApprovalPage)
async def list_(call: Call, query: ListApprovals) -> Any:
    """List approvals, oldest first, each with whether you may decide it (`can_decide`) and otherwise why not.

    With `mine`, `workflow`, `node` or `expires_before` a page looks at 2,000 at most: it may be short, even empty, and still have a
    `next_cursor`.
    """
    pages = call.service.approvals.list(
        state=query.state,
        run_id=query.run_id,
        workflow=query.workflow,
        node=query.node,
        expires_before=moment("expires_before", query.expires_before),
        mine=query.mine,
        limit=query.limit,
        cursor=query.cursor,
    )
    return await pages.first()


@routes.get("/approvals/{approval_id}", Permission.APPROVALS_READ, s.ApprovalDetails)
async def get(call: Call) -> Any:
    """Get an approval: its form, every vote, and what the approvers changed of what they were shown."""
    return await call.service.approvals.get(call.path("approval_id"))


class Decide(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    decision: Literal["approve", "reject"]
    comments: Annotated[str, Meta(max_length=LONGEST_COMMENTS)] = ""
    data: Annotated[Any, Meta(description="What the form asks for; it becomes part of the node's output.")] = None
    approver: (
        Annotated[
            str,
            Meta(
                description="The name of the person who decides, on a server without authentication.",
                min_length=1,
                max_length=200,
            ),
        ]
        | None
    ) = None


@routes.post("/approvals/{approval_id}/decide", Permission.APPROVALS_DECIDE, s.Approval)
async def decide(call: Call, body: Decide) -> Any:
    """Approve or reject an approval, as the principal whose credential is sent.

    The principal that started the run cannot decide. A decision that arrives when the approval is already decided is
    refused.
    """
    return await call.service.approvals.decide(
        call.path("approval_id"), body.decision, comments=body.comments, data=body.data, by=body.approver
    )


class Delegate(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    to: Annotated[str, Meta(description="The name of the person who decides instead.", min_length=1, max_length=200)]
    comments: Annotated[str, Meta(max_length=LONGEST_COMMENTS)] = ""
    approver: (
        Annotated[
            str,
            Meta(
                description="The name of the person who delegates, on a server without authentication.",
                min_length=1,
                max_length=200,
            ),
        ]
        | None
    ) = None


@routes.post("/approvals/{approval_id}/delegate", Permission.APPROVALS_DECIDE, s.Approval)
async def delegate(call: Call, body: Delegate) -> Any:
    """Let another person decide an approval in your place. Its quorum and the votes already given stay as they are."""
    return await call.service.approvals.delegate(
        call.path("approval_id"), body.to, comments=body.comments, by=body.approver
    )


class MakeLinks(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    approver: Annotated[
        str, Meta(description="The name of the person who decides by these links.", min_length=1, max_length=200)
    ]
    expires_seconds: Annotated[float, Meta(ge=1, le=365 * DAY)] = 7 * DAY


@routes.post("/approvals/{approval_id}/links", Permission.KEYS_ADMIN, s.ApprovalLinks, status=201, secret=True)
async def make_links(call: Call, body: MakeLinks) -> Any:
    """Make two links by which one approver can decide an approval: one approves, the other rejects.

    A link works once. Anyone who has it can decide as that approver, so send it to the approver alone. Opening a link
    decides nothing: it shows a page that asks for confirmation. The caller also needs the permission
    `approvals:decide`.
    """
    return await call.service.approvals.make_links(
        call.path("approval_id"),
        body.approver,
        expires_seconds=body.expires_seconds,
        public_url=call.site.options.public_url,
    )
