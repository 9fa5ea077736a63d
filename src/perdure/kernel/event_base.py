"""What all events have in common: the header of each, and how an activation is named inside one."""

from __future__ import annotations

from typing import ClassVar

import msgspec

Scope = tuple[int, ...]


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", gc=False):
    """Fields of all events. `counter` is the token counter after this event; `cause` the command or event before it."""

    VERSION: ClassVar[int] = 1
    type: ClassVar[str]
    """The name of its kind, as journals have it: that of its tag (`events.TYPES`)."""

    seq: int
    at: float
    cause: str = ""
    counter: int = 0
    version: int = 1
    refs: bool = False
    """True in stored bytes whose values hold references to blobs and are packed."""


class NodeEvent(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A fact about one activation: a node, in a scope, and for a map one of its items."""

    node: str
    scope: Scope = ()
    item: int | None = None
    visit: int = 0
    attempt: int = 0


class Place(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True, gc=False):
    """One activation inside a batch event."""

    node: str
    scope: Scope = ()
    item: int | None = None
    visit: int = 0
    attempt: int = 0
