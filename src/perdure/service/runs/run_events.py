"""Pages of a run's events: from either end, only those of some types or of a node, with or without values.

The numbers of events have no gaps, so a page from the end is found without a search. What is filtered out is looked at
all the same: a page says where it stopped looking. It must not know HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.journal import RunRecord, StoredEvent
from perdure.kernel import events as e
from perdure.runtime.portions import in_portions
from perdure.service.views import View

if TYPE_CHECKING:
    from perdure.engine import Engine

LOOKED_AT = 50_000
"""How many events are looked at for one page: a journal may have millions, and few of them may be wanted."""
_READ = 2000


class EventsAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Which events of a run a page has."""

    after: int = 0
    before: int | None = None
    """Only those before this number, and the newest first."""
    node: str | None = None
    types: tuple[str, ...] = ()
    outputs: bool = True
    """Whether they are shown with the values of users."""

    @property
    def is_filtered(self) -> bool:
        return self.node is not None or bool(self.types)


async def read_page(engine: Engine, record: RunRecord, asked: EventsAsked, limit: int, most_bytes: int | None) -> View:
    """At most `limit` events, fewer where they are large or where few of those looked at are wanted."""
    items: list[View] = []
    weight, seen, last = 0, 0, None
    async for stored in _read(engine, record, asked, limit):
        last = stored.seq
        seen += 1
        shown = _show(stored, asked)
        if shown is not None:
            items.append(shown)
            weight += len(stored.body)
        if len(items) == limit or seen == LOOKED_AT or (most_bytes is not None and weight > most_bytes):
            break
    return {
        "items": items,
        "next_cursor": None if last is None or not _is_more(record, asked, last) else str(last),
        "last_seq": record.seq,
    }


def _is_more(record: RunRecord, asked: EventsAsked, last: int) -> bool:
    return last < record.seq if asked.before is None else last - 1 > asked.after


async def _read(engine: Engine, record: RunRecord, asked: EventsAsked, limit: int) -> AsyncIterator[StoredEvent]:
    """The events in the wanted direction, with turns for other tasks."""
    many = _READ if asked.is_filtered else min(limit, _READ)
    backwards = asked.before is not None
    low, high = asked.after, record.seq
    if asked.before is not None:
        high = min(high, asked.before - 1)
    while low < high:
        start = max(low, high - many) if backwards else low
        stored = await engine.journal.read_events(record.run_id, start, min(many, high - start))
        if not stored:  # events are missing, which `perdure doctor` tells
            return
        if backwards:
            stored.reverse()
            high = start
        else:
            low = stored[-1].seq
        async for portion in in_portions(engine.clock, stored):
            for one in portion:
                yield one


def _show(stored: StoredEvent, asked: EventsAsked) -> View | None:
    """The event as it is shown; None: it is not wanted."""
    if asked.types and stored.type not in asked.types:
        return None
    if asked.node is None:
        return public_event(stored, outputs=asked.outputs)
    if msgspec.json.encode(asked.node) not in stored.body:  # decoding every event would take most of the time
        return None
    shown = public_event(stored, outputs=asked.outputs)
    if shown.get("node") == asked.node or shown["data"].get("node") == asked.node:
        return shown
    places = shown["data"].get("places", ())
    return shown if any(place[0] == asked.node for place in places) else None


def public_event(stored: StoredEvent, *, outputs: bool = True) -> dict[str, Any]:
    """The event as it is shown everywhere. Without `outputs` the values of users are left out, and `omitted` names
    them."""
    try:
        event = e.decode(stored.body)
        return e.public(event) if outputs else _show_bare(event)
    except (e.UnknownEvent, msgspec.MsgspecError) as error:  # the other events are shown all the same
        about = {"seq": stored.seq, "type": stored.type, "version": 0, "at": stored.at, "counter": 0}
        return {**about, "data": {"problem": f"this event cannot be read: {error}"[:500]}}


def _show_bare(event: e.Event) -> dict[str, Any]:
    given = [name for name in e.VALUES[type(event)] if getattr(event, name) not in (None, {})]
    if not given:
        return e.public(event)
    bare = msgspec.structs.replace(event, **{name: {} if name == "overrides" else None for name in given})
    return {**e.public(bare), "omitted": given}
