"""Signed callbacks, by which other systems answer. The signature is verified over the raw bytes, before any parsing."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from perdure.api import approval_schemas as s
from perdure.api.endpoints import Call, Routes
from perdure.api.request_reader import Body, read_body, read_bytes
from perdure.errors import Refused
from perdure.service import notifications

routes = Routes("hooks")


class SignedDecision(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    decision: Literal["approve", "reject"]
    comments: Annotated[str, Meta(max_length=10_000)] = ""
    data: Annotated[Any, Meta(description="What the form asks for; it becomes part of the node's output.")] = None
    approval_id: Annotated[
        str, Meta(description="The approval of the path: a signature covers the body, not the path.")
    ]


@routes.post("/hooks/approvals/{approval_id}", None, s.Approval, signed=SignedDecision, audited=False)
async def decide(call: Call) -> Any:
    """Decide an approval as the system that was notified of it.

    The request is signed as Standard Webhooks describes, with the secret that the approval's `notify` names. The vote counts
    as that of `webhook:<host>`, the host of the `url` in `notify`. A request whose signature is wrong is answered with 404.
    """
    engine, name = call.site.engine, call.path("approval_id")
    raw = await read_bytes(call.request)
    try:
        caller = await notifications.authenticate(engine, name, call.request.headers, raw)
    except notifications.SignatureInvalid:
        call.site.count_failure(call.request)
        raise
    call.site.limiter.check(caller.principal)
    body = await read_body(call.request, SignedDecision)
    if body.approval_id != caller.row.approval_id:
        raise Refused(
            f"the body names approval {body.approval_id[:200]}, but it was sent to {name}; send it to the approval it names",
            code="wrong_approval",
        )
    view, cast = await notifications.decide(engine, caller, body.decision, body.comments, body.data)
    if cast:
        # Crash here: the approval is decided and not in the audit; the run's journal has the decision.
        await call.site.audit.record(
            caller.principal, "hooks.decide", name, after=body.decision, request_id=call.request_id
        )
    return view
