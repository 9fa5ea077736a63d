"""The events of a mailbox: what came in for a trigger, and what became of it (rules 45 to 50, 55 to 59)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from perdure.kernel.event_base import Event, Scope
from perdure.kernel.triggers.mailbox import Begun, Cursor, Item, Mailbox, Over, Policy
from perdure.kernel.values import Error

SkipReason = Literal["overlap", "superseded", "catchup", "paused", "duplicate", "limit", "deleted", "filter"]


class MailboxEvent(Event, frozen=True, kw_only=True, omit_defaults=True):
    node: str
    lane: int = 0


class TriggerRegistered(MailboxEvent, frozen=True, kw_only=True, tag="trigger.registered"):
    """The trigger is there, or is changed: then with the next revision."""

    VERSION: ClassVar[int] = 2
    name: str
    kind: str
    spec: Any = None
    policy: Policy
    revision: int = 1
    cursor: Cursor = None
    """Where it begins. The past of a new schedule is not missed."""
    source: str = ""
    manner: str = ""
    begins: str = ""
    """Where a changed source begins: `start`, `end`, or empty, as its spec says."""
    topic: str = ""
    """What it listens to (rule 53)."""
    by: str = ""
    hook: str = ""
    inner: bool = False
    """True for a trigger inside a run: its items are handed to activations of its node (rule 54). Only in version 2."""


class TriggerReceived(MailboxEvent, frozen=True, kw_only=True, tag="trigger.received"):
    after: Cursor = None
    """The cursor before; it moves in the same fact that the items come in by."""
    cursor: Cursor = None
    revision: int = 1
    items: tuple[Item, ...]
    inputs: Any = None
    """The inputs of the items, in their order."""
    poll: int = 0
    """The poll that brought them; 0: they were pushed, or are moments."""
    scope: Scope = ()
    """The iteration of that poll."""
    more: bool = False
    end: bool = False
    """Nothing will come any more."""


class TriggerAdvanced(MailboxEvent, frozen=True, kw_only=True, tag="trigger.advanced"):
    """The cursor moved, and nothing was received."""

    after: Cursor = None
    cursor: Cursor = None
    reason: Literal["empty", "filtered", "rewound"] = "empty"
    poll: int = 0
    """The poll that moved it."""
    scope: Scope = ()
    more: bool = False
    end: bool = False
    round: int = 0
    upto: str = ""
    """Rewound, to run again: the items up to this id run in the round."""
    begins: str = ""
    """Rewound to where there is no cursor: reading begins at the `start`, whatever the spec says."""
    note: str = ""
    """Why a person moved it."""
    by: str = ""


class TriggerSkipped(MailboxEvent, frozen=True, kw_only=True, tag="trigger.skipped"):
    """Items that start no run, by number; or moments that were not received at all, counted."""

    reason: SkipReason
    numbers: tuple[int, ...] = ()
    count: int = 0
    since: float | None = None
    until: float | None = None


class TriggerStarted(MailboxEvent, frozen=True, kw_only=True, tag="trigger.started"):
    starts: tuple[Begun, ...]


class TriggerHanded(MailboxEvent, frozen=True, kw_only=True, tag="trigger.handed"):
    """An item was handed to an activation of the node, whose outcome it is (rule 54)."""

    number: int
    scope: Scope = ()


class TriggerEnded(MailboxEvent, frozen=True, kw_only=True, tag="trigger.ended"):
    ends: tuple[Over, ...]


class TriggerParked(MailboxEvent, frozen=True, kw_only=True, tag="trigger.parked"):
    number: int
    error: Error


class TriggerReleased(MailboxEvent, frozen=True, kw_only=True, tag="trigger.released"):
    """A person decided on a parked item."""

    number: int
    as_: Literal["again", "skip"] = msgspec.field(name="as", default="again")
    key: str = ""
    inputs: Any = None
    by: str = ""


class TriggerBackfilling(MailboxEvent, frozen=True, kw_only=True, tag="trigger.backfilling"):
    """Moments of the past are to be received in the lane that this opens."""

    since: float
    until: float
    round: int = 0
    open: int = 1
    by: str = ""


class TriggerCarried(MailboxEvent, frozen=True, kw_only=True, tag="trigger.carried"):
    """The mailbox that the run this one continues had."""

    mailbox: Mailbox
    inputs: Any = None
    """The inputs of its items, by number."""
