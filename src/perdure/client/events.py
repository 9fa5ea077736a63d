"""Events by name: sent once, and taken in by every trigger that listens to them."""

from __future__ import annotations

from typing import Any

from perdure.client import views as v
from perdure.client.http_calls import Call, given, post
from perdure.client.operations import AsyncNoun, Noun, operation


class EventsCalls:
    """Every operation on events, described once."""

    @operation
    def send(self, name: str, payload: Any = None, *, id: str | None = None, key: str = "") -> Call[v.EventSent]:
        """Send an event. With an `id` that an event of this name had, it is that event, and nothing happens. `key` is what
        triggers see as `item.key`."""
        body = given(name=name, payload=payload, id=id, key=key or None)
        return post("events", body=body, repeatable=id is not None)


class Events(EventsCalls, Noun):
    __doc__ = EventsCalls.__doc__


class AsyncEvents(EventsCalls, AsyncNoun):
    __doc__ = EventsCalls.__doc__
