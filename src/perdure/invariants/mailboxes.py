"""Triggers: each item has one fate, cursors move with what they pass, and starts keep to the limits (TG1 to TG9)."""

from __future__ import annotations

from collections.abc import Iterable

from perdure.invariants.box import Box, Fate
from perdure.invariants.model import Model
from perdure.kernel import events as e
from perdure.kernel.mailbox import SEEN, Item
from perdure.kernel.trigger_events import MailboxEvent


def registered(model: Model, event: e.TriggerRegistered) -> None:
    box = model.boxes.get(event.node)
    model.timers.pop(f"trigger:{event.node}", None)
    scheduled = event.kind == "schedule"
    if box is None:
        if event.revision != 1:
            model.blame("TG8", f"{event.name} is registered for the first time with revision {event.revision}")
        model.boxes[event.node] = Box(
            policy=event.policy, revision=event.revision, cursor=event.cursor, scheduled=scheduled
        )
        return
    if event.revision != box.revision + 1:
        model.blame("TG8", f"revision {event.revision} of {event.name} comes after {box.revision}")
    if isinstance(box.cursor, float) and (not isinstance(event.cursor, float) or event.cursor < box.cursor):
        model.blame("TG2", f"{event.name} is changed and its cursor goes from {box.cursor} to {event.cursor}")
    if not scheduled and event.cursor != box.cursor:
        model.blame("TG2", f"{event.name} is changed and its cursor goes from {box.cursor} to {event.cursor}")
    box.policy, box.revision, box.cursor = event.policy, event.revision, event.cursor


def _find(model: Model, event: MailboxEvent) -> Box | None:
    box = model.boxes.get(event.node)
    if box is None:
        model.blame("TG2", f"{event.type} of {event.node}, which is not registered")
    return box


def moved(model: Model, event: e.TriggerAdvanced | e.TriggerReceived) -> None:
    box = _find(model, event)
    if box is None:
        return
    before = box.lanes[event.lane][0] if event.lane else box.cursor
    if before != event.after:
        model.blame("TG2", f"the cursor of {event.node} is at {before}, and is moved from {event.after}")
    if isinstance(before, float) and (not isinstance(event.cursor, float) or event.cursor < before):
        model.blame("TG2", f"the cursor of {event.node} goes back from {before} to {event.cursor}")
    if event.lane and isinstance(event.cursor, float):
        _, until, most = box.lanes[event.lane]
        box.lanes[event.lane] = (event.cursor, until, most)
    else:
        box.cursor = event.cursor


def received(model: Model, event: e.TriggerReceived) -> None:
    moved(model, event)
    box = model.boxes.get(event.node)
    if box is None:
        return
    if event.revision != box.revision:
        model.blame("TG8", f"items come under revision {event.revision}; {event.node} has {box.revision}")
    last = event.after
    for item in event.items:
        if item.number != box.position + 1:
            model.blame("TG1", f"item {item.number} comes after {box.position}")
        box.position = item.number
        box.fates[item.number], box.items[item.number] = "waiting", item
        known = box.runs.get(item.run_id)
        if known is not None and item.number - known <= SEEN:
            model.blame("TG4", f"item {item.number} is item {known} once more: both are {item.run_id}")
        box.runs[item.run_id] = item.number
        if item.nominal is not None:
            if item.nominal > event.at:
                model.blame("TG7", f"the moment {item.nominal} is received at {event.at}")
            if isinstance(last, float) and item.nominal <= last:
                model.blame("TG7", f"the moment {item.nominal} is received after {last}")
            if isinstance(event.cursor, float) and item.nominal > event.cursor:
                model.blame("TG7", f"the moment {item.nominal} is received, and the cursor is at {event.cursor}")
            last = item.nominal


def _fate(model: Model, box: Box, numbers: Iterable[int], fate: Fate) -> list[Item]:
    found = []
    for number in numbers:
        if box.fates.get(number) != "waiting":
            model.blame("TG1", f"item {number} is {fate}, and was {box.fates.get(number, 'not received')}")
        box.fates[number] = fate
        item = box.items.get(number) if fate == "parked" else box.items.pop(number, None)
        if item is not None:
            found.append(item)
    return found


def skipped(model: Model, event: e.TriggerSkipped) -> None:
    box = _find(model, event)
    if box is not None:
        _fate(model, box, event.numbers, "skipped")
        if bool(event.numbers) == bool(event.count):
            model.blame("TG1", f"{event.type} is about items or about moments: {event.numbers}, {event.count}")


def started(model: Model, event: e.TriggerStarted) -> None:
    box = _find(model, event)
    if box is None:
        return
    if model.state != "running":
        model.blame("TG9", f"the trigger is {model.state}, and starts {event.starts[0].run_id}")
    for start in event.starts:
        for item in _fate(model, box, start.numbers, "started"):
            _starts(model, box, item, start.run_id)


def _starts(model: Model, box: Box, item: Item, run_id: str) -> None:
    if run_id != item.run_id:
        model.blame("TG4", f"item {item.number} is {item.run_id} and starts {run_id}")
    if run_id in box.open:
        model.blame("TG4", f"{run_id} is open and is started again")
    earlier = [
        n for n, one in box.items.items() if one.key == item.key and n < item.number and box.fates[n] == "waiting"
    ]
    if item.key and earlier:
        model.blame("TG6", f"item {item.number} starts before {min(earlier)}, which has the same key")
    of_key = sum(one.key == item.key for one in box.open.values())
    if item.key and box.policy.per_key and of_key >= box.policy.per_key:
        model.blame("TG5", f"{of_key} runs of one key are open when item {item.number} starts")
    if box.overlaps(item) == "allow":
        return
    in_lane = sum(one.lane == item.lane for one in box.open.values())
    if in_lane >= box.limit(item.lane):
        model.blame("TG5", f"{in_lane} runs are open when item {item.number} starts")
    box.open[run_id] = item


def ended(model: Model, event: e.TriggerEnded) -> None:
    box = _find(model, event)
    for end in event.ends if box is not None else ():
        item = box.open.pop(end.run_id, None) if box is not None else None
        if item is None or item.number != end.number:
            model.blame("TG3", f"{end.run_id} ends for item {end.number}, and is not open for it")


def parked(model: Model, event: e.TriggerParked) -> None:
    box = _find(model, event)
    if box is not None:
        _fate(model, box, (event.number,), "parked")


def released(model: Model, event: e.TriggerReleased) -> None:
    box = _find(model, event)
    if box is None:
        return
    if box.fates.get(event.number) != "parked":
        model.blame("TG1", f"item {event.number} is released, and was {box.fates.get(event.number, 'not received')}")
    item = box.items.pop(event.number, None)
    box.fates[event.number] = "waiting" if event.as_ == "again" else "skipped"
    if item is not None and event.as_ == "again":
        box.items[event.number] = Item(
            **{name: getattr(item, name) for name in item.__struct_fields__} | {"key": event.key}
        )


def backfilling(model: Model, event: e.TriggerBackfilling) -> None:
    box = _find(model, event)
    if box is not None:
        if event.lane in box.lanes or not event.lane:
            model.blame("TG2", f"lane {event.lane} of {event.node} is opened twice")
        box.lanes[event.lane] = (event.since, event.until, event.open)


def carried(model: Model, event: e.TriggerCarried) -> None:
    held = event.mailbox
    if model.boxes.get(event.node) is not None:
        model.blame("TG2", f"{event.node} takes a mailbox over, and has one")
    waiting = dict(held.waiting)
    stuck = {n: one.item for n, one in held.parked.items()}
    fates: dict[int, Fate] = dict.fromkeys(range(1, held.position + 1), "skipped")  # or started: it was decided before
    fates.update(dict.fromkeys(waiting, "waiting"))
    fates.update(dict.fromkeys(stuck, "parked"))
    model.boxes[event.node] = Box(
        policy=held.policy,
        revision=held.revision,
        cursor=held.cursor,
        scheduled=held.kind == "schedule",
        fates=fates,
        items=waiting | stuck,
        runs=dict(held.seen),
        open={
            run_id: Item(number=one.number, id="", run_id=run_id, key=one.key, lane=one.lane)
            for run_id, one in held.open.items()
        },
        lanes={n: (lane.cursor, lane.until, lane.open) for n, lane in held.lanes.items()},
        position=held.position,
    )
