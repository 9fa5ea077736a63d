"""Events by name: sent once, kept, and taken in by every trigger that listens to them.

An event is durable when this answers. Who takes it in is not known here, and need not be there yet.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.journal import Occurrence
from perdure.model.fields import NAME
from perdure.runtime.coordinator.triggers.topic_names import Sent, event_topic
from perdure.service.errors import EventsFull, Invalid, Trouble
from perdure.service.tenancy import Tenancy, refuse_sealed
from perdure.service.views import View
from perdure.triggers.mapping import LONGEST_ID

LARGEST_EVENT = 256 * 1024
"""The most bytes of a payload, as JSON. What is larger has a place of its own, which the event names."""


class Events:
    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy
        self._engine = tenancy.engine

    async def send(self, name: str, payload: Any = None, *, id: str | None = None, key: str = "") -> View:
        """Send an event. With an `id` that an event of this name had, it is that event, and nothing happens. `key` is what
        triggers see as `item.key`."""
        id = self._engine.clock.new_id() if id is None else id
        refuse_sealed("payload", payload)
        body = msgspec.json.encode(Sent(payload=payload, by=self._tenancy.by))
        _check(name, id, key, len(body))
        happened = Occurrence(
            tenant=self._tenancy.tenant,
            topic=event_topic(name),
            key=key,
            id=id,
            at=self._engine.clock.now(),
            body=body,
        )
        room = self._engine.event_room
        if not await room.make(happened.tenant):
            message = f"{room.most:,} events are kept (max_events), and triggers that are paused or full have still to read them"
            raise EventsFull(f"{message}; resume or delete these, then send it again")
        journal = self._engine.journal
        listeners = await journal.count_subscribers(happened.tenant, happened.topic, key)
        others = 0 if listeners else await journal.count_subscribers(happened.tenant, happened.topic)
        position, new = await journal.put_occurrence(happened)
        self._engine.look_at_topics()
        return {
            "name": name,
            "id": id,
            "key": key,
            "position": position,
            "duplicate": not new,
            "listeners": listeners,
            "other_keys": others,
            "kept_until": happened.at + room.seconds,
        }


def _check(name: str, id: str, key: str, size: int) -> None:
    """Refuse with everything that is wrong."""
    found = []
    if NAME.fullmatch(name) is None:
        found.append(
            Trouble("name", "wrong_value", "a name has up to 128 letters, digits and . _ - , such as order.paid")
        )
    for path, text in (("id", id), ("key", key)):
        if len(text) > LONGEST_ID or "\0" in text or (path == "id" and not text) or not _is_unicode(text):
            said = f"the {path} has at most {LONGEST_ID} characters, none of them NUL" + ", and one" * (path == "id")
            found.append(Trouble(path, "wrong_value", said))
    if size > LARGEST_EVENT:
        said = f"the payload has {size:,} bytes, and may have {LARGEST_EVENT:,}; keep it elsewhere and send its address"
        found.append(Trouble("payload", "too_large", said))
    if found:
        raise Invalid("; ".join(one.message for one in found), found)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
