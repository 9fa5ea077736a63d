"""Other systems that are notified of approvals: whether they were told, and the decisions they send back.

A callback is authenticated by its signature alone, with the secret that the approval names, looked up for the
approval's tenant. Whatever is wrong with a callback, the answer is the same; a signature with another approval's secret
is wrong here. The vote counts as that of `webhook:<host>`, which may vote where the workflow lets it (X17, X22, X30).
It must not know HTTP.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from perdure.access import Permission, Principal
from perdure.archive.notifications import Callback
from perdure.clock import new_key
from perdure.egress.urls import parse
from perdure.engine import Engine
from perdure.errors import NotFound, Refused
from perdure.journal import ApprovalRow
from perdure.kernel import events as e
from perdure.runtime.notifier import QUEUE, webhook_name
from perdure.runtime.signing_secrets import reveal_unless_a_key
from perdure.secrets.signatures import WeakSecret, read_keys, verify
from perdure.service.runs.history import read_all
from perdure.service.tenancy import Tenancy, archive_of
from perdure.service.views import View, approval_view


class SignatureInvalid(NotFound):
    """A callback without a valid signature is told that nothing is here for it."""

    code = "invalid_signature"


class Caller(msgspec.Struct, frozen=True):
    """The sender of a correctly signed callback."""

    row: ApprovalRow
    principal: Principal
    message: str
    """Names the message; its copies have the same name, other messages another."""
    repeated: bool
    """A copy of the message was received before."""


async def notification_view(tenancy: Tenancy, row: ApprovalRow) -> View | None:
    """Whether the other system was told, or why not. None: no system is to be told."""
    found = await tenancy.archive.find_notification(row.tenant, row.approval_id)
    if found is None:
        return None
    view: View = {"state": found.state, "attempts": found.attempts, "delivered_at": found.delivered_at}
    view["next_at"] = found.next_at if found.state == "waiting" else None
    view["last_error"] = found.last_error or None
    return view


async def authenticate(engine: Engine, approval_id: str, headers: Mapping[str, str], body: bytes) -> Caller:
    """The sender of a callback. Raises SignatureInvalid, or Refused when the id was used for another message."""
    row, notify = await _find(engine, approval_id)
    now = engine.clock.now()
    message_id = verify(_keys(engine, row, notify), headers, body, now)
    if message_id is None or row is None or notify is None:
        raise SignatureInvalid(
            "there is no approval here that this request may decide: its signature is missing, wrong or too old, or the approval "
            "is not one that another system was told of"
        )
    callback = Callback(
        callback_hash=hashlib.sha256(f"{row.tenant}\0{notify['secret']}\0{message_id}".encode()).digest(),
        tenant=row.tenant,
        digest=hashlib.sha256(f"{row.approval_id}\0".encode() + body).digest(),
        received_at=now,
    )
    known = await archive_of(engine).keep_callback(callback)
    # Crash here: nothing is decided yet; the same message, sent again, is decided then.
    if known is not None and known.digest != callback.digest:
        raise Refused(
            f"webhook-id {message_id} was used for another message; give each its own", code="webhook_id_used"
        )
    return Caller(row, _principal(row, notify), callback.callback_hash.hex(), repeated=known is not None)


async def decide(
    engine: Engine,
    caller: Caller,
    decision: Literal["approve", "reject"],
    comments: str,
    data: Any,
) -> tuple[View, bool]:
    """The approval after the vote, and whether this copy of the message cast it. Every other copy gets the same answer,
    in whichever process and order they arrive: the journal says which message cast the vote."""
    from perdure.service import Service

    service = Service(engine, caller.principal)
    name, message = caller.row.approval_id, caller.message
    try:
        return await service.approvals.decide(name, decision, comments=comments, data=data, message=message), True
    except Refused:
        vote = await _find_vote(engine, caller)
        # A vote of a process that is older than `message` does not say which message cast it.
        mine = vote is not None and (vote.message or (message if caller.repeated else "")) == message
        if vote is None or not mine or vote.decision != decision:
            raise
        return approval_view(await service.tenancy.get_approval(name)), False


async def _find_vote(engine: Engine, caller: Caller) -> e.ApprovalVoted | None:
    async for event in read_all(engine, caller.row.run_id):
        if isinstance(event, e.ApprovalVoted) and event.approval == caller.row.approval_id:
            if event.by == caller.principal.name:
                return event
    return None


async def _find(engine: Engine, approval_id: str) -> tuple[ApprovalRow | None, dict[str, str] | None]:
    try:
        row = await engine.journal.get_approval(approval_id)
    except NotFound:
        return None, None
    notify = msgspec.json.decode(row.body).get("notify")
    return row, notify if isinstance(notify, dict) else None


def _keys(engine: Engine, row: ApprovalRow | None, notify: dict[str, str] | None) -> tuple[bytes, ...]:
    """The keys that may have signed a callback; without any, a random one, so that the same work is done (X22)."""
    if row is not None and notify is not None and engine.vault is not None:
        try:
            return read_keys(reveal_unless_a_key(engine.vault, notify["secret"], row.tenant, QUEUE))
        except (LookupError, WeakSecret):
            pass
    return (new_key(32),)


def _principal(row: ApprovalRow, notify: dict[str, str]) -> Principal:
    return Principal(
        tenant=row.tenant,
        name=webhook_name(parse(notify["url"])),
        kind="webhook",
        roles=(),  # only a person may vote for a role
        scopes=(Permission.APPROVALS_DECIDE,),
        permissions=frozenset({Permission.APPROVALS_DECIDE}),
    )
