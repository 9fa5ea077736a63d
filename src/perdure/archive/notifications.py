"""Other systems that are told of approvals, and what they answer."""

from __future__ import annotations

from typing import Literal

import msgspec

WANTS_NOTIFICATION = b'{"notify":{'
"""How the body of an approval begins if another system is to be told of it. A database compares these bytes and reads
no further: it writes the notification together with the approval, so there is never one without the other."""


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """What became of telling another system about an approval."""

    approval_id: str
    tenant: str
    state: Literal["waiting", "delivered", "failed", "stopped"] = "waiting"
    """`failed`: the time for trying is over; `stopped`: the approval was no longer pending."""
    attempts: int = 0
    created_at: float
    next_at: float
    """When it may be tried next; during an attempt, when another process may try."""
    delivered_at: float | None = None
    last_error: str = ""


class Callback(msgspec.Struct, frozen=True, kw_only=True):
    """A signed message that was accepted, remembered so that its id cannot be used for another one."""

    callback_hash: bytes
    """SHA-256 of the tenant, of the name of the secret that signed the message, and of the message's id."""
    tenant: str
    digest: bytes
    """SHA-256 of the approval the message is about and of its body."""
    received_at: float
