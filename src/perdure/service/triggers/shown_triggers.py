"""How triggers, their items and their moments look to people and programs. It turns what was read into plain data."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from perdure.journal import TriggerRow
from perdure.kernel.triggers.mailbox import Firing, Item, Mailbox
from perdure.model.trigger_sources import Webhook
from perdure.model.triggers import Trigger
from perdure.service.views import View
from perdure.triggers.calendar import Moment
from perdure.triggers.zones import say_time

HOOKS = "/api/v1/hooks/"
"""Where deliveries go; behind it stands what only the sender knows."""


def trigger_view(row: TriggerRow, ended: Mapping[str, Collection[str]], *, may_start: bool) -> View:
    """`ended`: by trigger id, runs that have ended, which it has not heard yet. An address that proves everything by itself is shown only
    to a user who may start runs."""
    body = msgspec.json.decode(row.body)
    shows_hook = row.hook is not None and (may_start or not _proves_nothing(body["spec"]))
    return {
        "name": row.name,
        "kind": row.kind,
        "state": row.state,
        "revision": row.revision,
        "trigger_id": row.trigger_id,
        "hook": f"{HOOKS}{row.hook}" if shows_hook else None,
        "workflow": row.workflow,
        "cursor": _read_cursor(row.cursor),
        "next_at": row.next_at,
        "last_at": row.last_at,
        "waiting": row.waiting,
        "open": max(0, row.open - len(ended.get(row.trigger_id, ()))),
        "parked": row.parked,
        "failures": body["failures"],
        "skipped": body.get("skipped", {}),
        "last_success": body.get("last_success"),
        "pauses": body.get("pauses", []),
        "error": None if row.error is None else msgspec.json.decode(row.error),
        "spec": body["spec"],
    }


def last_success_of(row: TriggerRow) -> float | None:
    """The latest moment of a schedule whose run has completed."""
    found: float | None = msgspec.json.decode(row.body).get("last_success")
    return found


def _proves_nothing(spec: Any) -> bool:
    trigger = msgspec.convert(spec, Trigger)
    return isinstance(trigger.source, Webhook) and trigger.source.verify.scheme == "none"


def _read_cursor(cursor: bytes) -> Any:
    try:
        return msgspec.json.decode(cursor)
    except msgspec.DecodeError:  # it was cut
        return cursor.decode(errors="replace") + "…"


def moment_view(moment: Moment, zone: Any) -> View:
    return {
        "moment": float(moment.nominal),
        "due": float(moment.due),
        "local": say_time(moment.nominal, zone),
        "note": moment.note,
    }


def item_views(box: Mailbox, ended: Collection[str] = ()) -> Iterator[View]:
    """The items that a trigger holds, in the order of their numbers: those that wait, those parked, and those whose runs are open, and
    not among the `ended`."""
    found = [_item_view(item, "waiting") for item in box.waiting.values()]
    found += [
        {**_item_view(one.item, "parked"), "error": msgspec.to_builtins(one.error)} for one in box.parked.values()
    ]
    found += [_firing_view(run_id, firing) for run_id, firing in box.open.items() if run_id not in ended]
    yield from sorted(found, key=lambda one: int(one["number"]))


def _firing_view(run_id: str, firing: Firing) -> View:
    return {
        "number": firing.number,
        "id": None,
        "at": firing.at or None,
        "moment": firing.moment,
        "error": None,
        "key": firing.key,
        "run_id": run_id,
        "state": "open",
    }


def _item_view(item: Item, state: str) -> View:
    return {
        "number": item.number,
        "id": item.id,
        "at": item.at,
        "moment": item.nominal,
        "error": None,
        "key": item.key,
        "run_id": item.run_id,
        "state": state,
    }
