"""What happened on a topic, as the command that a trigger takes it in by (rule 53).

Items are mapped under the revision that the mailbox has now, as those of polls are. Decides nothing and keeps nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from perdure.expressions.at_hand import AtHand
from perdure.journal import Occurrence, Subscription
from perdure.kernel import commands as c
from perdure.kernel.state import State
from perdure.kernel.triggers.topics import find_refusal
from perdure.model.garbage import no_collection
from perdure.model.trigger_sources import Event, Runs
from perdure.model.triggers import Trigger
from perdure.runtime.coordinator.triggers.mapped_polls import map_aside
from perdure.runtime.coordinator.triggers.subscriptions import place_of_trigger
from perdure.runtime.coordinator.triggers.topic_names import EndOfRun, Sent, event_topic, run_topic
from perdure.sources.pages import shorten_id

Seen = Mapping[str, Any]
"""Runs that have ended, as the API shows them, by the ids of their ends."""


def topic_of(trigger: Trigger) -> str:
    """What a trigger listens to; empty for what listens to nothing."""
    match trigger.source:
        case Event():
            return event_topic(trigger.source.name)
        case Runs():
            return run_topic(trigger.source.workflow)
        case _:
            return ""


def make_hearing(
    state: State, read: Subscription, happened: Sequence[Occurrence], seen: Seen, at: float, at_hand: AtHand | None
) -> c.Hear:
    """The command that takes in what was read for a subscription. Raises NeedsMapped until that is mapped, beside the loop. A place that is there no more, or listens to something else by now, makes a command that is refused."""
    node, box = next(
        ((node, box) for node, box in state.triggers.items() if place_of_trigger(box, node) == read.place), ("", None)
    )
    about: dict[str, Any] = {"at": at, "id": "topic", "node": node, "after": str(read.since)}
    cursor = str(happened[-1].position)
    if box is None or box.topic != read.topic:
        return c.Hear(**about, items=(), cursor=cursor, revision=0)
    if find_refusal(state, box, about["after"]) is not None:  # nor is it mapped: it is read anew when that is over
        return c.Hear(**about, items=(), cursor=cursor, revision=box.revision)
    trigger = msgspec.convert(box.spec, Trigger)
    depths = {shorten_id(one.id): depth for one in happened if (depth := _find_depth(trigger, one)) is not None}

    def make() -> dict[str, Any]:
        wanted = [one for one in happened if shorten_id(one.id) in depths]
        return {
            "items": [{"id": shorten_id(one.id), "data": _make_item(trigger, one, seen)} for one in wanted],
            "cursor": "",
        }

    key = f"heard:{state.run_id}:{read.place}:{read.since}:{cursor}:{box.revision}"
    mapped = map_aside(at_hand, key, box.spec, at, make) if depths else ()
    items = tuple(msgspec.structs.replace(one, depth=depths[one.id]) for one in mapped)
    fields: Any = {"items": items, "filtered": len(happened) - len(items), "revision": box.revision}
    return c.Hear(**about, cursor=cursor, **fields)


def _find_depth(trigger: Trigger, one: Occurrence) -> int | None:
    """How many triggers led to it; None, if the trigger does not want such. What was sent is not looked into here: this is the loop."""
    if not isinstance(trigger.source, Runs):
        return 0
    end = read_end(one)
    tags = all(end.tags.get(name) == value for name, value in trigger.source.tag.items())
    return end.depth if end.state in trigger.source.state and tags else None


@no_collection()
def _make_item(trigger: Trigger, one: Occurrence, seen: Seen) -> Any:
    """What templates see of it. A payload may have many parts."""
    if not isinstance(trigger.source, Runs):
        sent = msgspec.json.decode(one.body, type=Sent)
        name = one.topic.partition(":")[2]
        return {"name": name, "payload": sent.payload, "key": one.key, "id": one.id}
    end = read_end(one)
    shown = seen.get(one.id) or {"run_id": end.run_id, "workflow": trigger.source.workflow, "tags": end.tags}
    return {**shown, "state": end.state}


def read_end(one: Occurrence) -> EndOfRun:
    return msgspec.json.decode(one.body, type=EndOfRun)
