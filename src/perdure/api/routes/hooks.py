"""What other systems send, signed: answers about approvals, and deliveries to webhooks. The signature is verified over the raw bytes,
before any parsing.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl

from msgspec import Meta
from starlette.requests import Request

from perdure.access import RateLimited, make_principal
from perdure.api.bodies import BODY
from perdure.api.endpoints import Answer, Call, Routes
from perdure.api.problem_details import BadBody
from perdure.api.request_reader import LARGE_BYTES, AnyQuery, Body, read_body, read_bytes, read_json
from perdure.api.schemas import approval_schemas as s
from perdure.api.schemas import trigger_schemas as t
from perdure.errors import Refused
from perdure.service import notifications
from perdure.service.approvals import LONGEST_COMMENTS
from perdure.service.errors import TriggerFull, Trouble
from perdure.service.triggers import webhook_deliveries as webhooks
from perdure.threads import aside

MOST_FIELDS = 1000
"""The most fields of a form."""

routes = Routes("hooks")


class SignedDecision(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    decision: Literal["approve", "reject"]
    comments: Annotated[str, Meta(max_length=LONGEST_COMMENTS)] = ""
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


# -- webhooks of triggers ----------------------------------------------------------------------------------------------


@routes.post(
    "/hooks/{hook}",
    None,
    t.Delivered,
    status=202,
    also={200: Any},
    sends=("application/json", "application/x-www-form-urlencoded", "text/plain"),
    audited=False,
)
async def deliver(call: Call, query: AnyQuery) -> Answer:
    """Deliver to the webhook of a trigger. The path is the `hook` of the trigger; the request is signed as its `verify` says.

    202: it is durable, and `run_id` is the run that it starts. The same id again is answered with the same number and run, and
    `duplicate`. 200: the filter did not let it pass, or the run that it started has ended and this is its answer. 404: there is no
    such webhook, or the signature is wrong, missing or too old. 503: as many items wait as may; send it again later.
    """
    site, hook, request = call.site, call.path("hook"), call.request
    _check_rate(call, hook)
    request.scope[BODY].most = site.options.hook_max_bytes
    raw = await read_bytes(request)
    headers = dict(request.headers)
    try:
        caller = await webhooks.authenticate(site.engine, hook, headers, raw)
    except webhooks.HookRefused as refused:
        site.metrics.hook(refused.cause)
        site.count_failure(request)
        raise
    # Only what is proven uses the rate up: the address of a hook is no secret. Others have arrived since it was asked first.
    _check_rate(call, hook)
    site.hook_rates.spend(hook)
    try:
        item = {
            "headers": webhooks.keep_headers(headers, caller.source.verify),
            "query": {_without_nul(name): _without_nul(value) for name, value in request.query_params.items()},
            "body": await _read_content(caller.row.tenant, request, raw),
            "digest": hashlib.sha256(raw).hexdigest(),
        }
        done = await webhooks.deliver(site.engine, caller, item, len(raw))
    except TriggerFull:
        site.metrics.hook("full")
        raise
    except BadBody:
        site.metrics.hook("unreadable")
        raise
    site.metrics.hook(done.outcome)
    if done.taken is None:
        return Answer({"filtered": True}, 200)
    return await _answer(call, caller, item, done)


def _check_rate(call: Call, hook: str) -> None:
    """Raises RateLimited while the hook has had as many deliveries as it may."""
    if (wait := call.site.hook_rates.wait(hook)) > 0:
        call.site.metrics.hook("rate")
        raise RateLimited("this webhook takes no more deliveries for a moment", wait)


async def _answer(call: Call, caller: webhooks.Caller, item: Any, done: webhooks.Delivery) -> Answer:
    taken = done.taken
    assert taken is not None
    answer = caller.source.answer
    if answer is not None and answer.wait and taken.fate == "started":
        waiter = make_principal(tenant=caller.row.tenant, name=f"trigger:{caller.row.name}", kind="webhook", roles=())
        with suppress(RateLimited), call.site.places.enter(waiter):  # too many wait: it is told what is durable
            ended, content = await webhooks.wait_for_answer(
                call.site.engine, caller, item, taken.run_id, float(answer.wait)
            )
            if ended:
                return Answer(content, 200)
    view = {"number": taken.number, "run_id": taken.run_id, "duplicate": taken.fate == "known"}
    return Answer(view, 202)


def _without_nul(text: str) -> str:
    """No database keeps a NUL, which a form or a query may bring as %00 too."""
    return text.replace("\0", "\ufffd")


async def _read_content(tenant: str, request: Request, raw: bytes) -> Any:
    """The content of a genuine delivery: JSON as data, a form as an object of texts, anything else as text."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()

    def read() -> Any:
        if not raw:
            return None
        if kind == "application/json" or kind.endswith("+json"):
            return read_json(raw)
        text = raw.decode("utf-8", "replace")
        if kind == "application/x-www-form-urlencoded":
            try:
                fields = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
                return {_without_nul(name): _without_nul(value) for name, value in fields}
            except ValueError as error:
                raise BadBody(f"the form: {error}", [Trouble("", "syntax", str(error))]) from None
        return _without_nul(text)

    return await aside(tenant, read) if len(raw) > LARGE_BYTES else read()
