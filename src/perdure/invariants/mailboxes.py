"""Triggers: each item has one fate, cursors move with what they pass, and starts keep to the limits (TG1 to TG9, TG13)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from perdure.invariants.box import Box, Fate, Grouped
from perdure.invariants.model import Model
from perdure.kernel import events as e
from perdure.kernel.triggers.mailbox import SEEN, Begun, Item, run_of_window
from perdure.kernel.triggers.trigger_events import MailboxEvent
from perdure.kernel.triggers.windows import MOST_WINDOWS

ROUNDING = 1e-6
"""The seconds by which a sum of times may be off."""

_POLLING = ("queued", "running")


def registered(model: Model, event: e.TriggerRegistered) -> None:
    box = model.boxes.get(event.node)
    model.timers.pop(f"trigger:{event.node}", None)
    scheduled = event.kind == "schedule"
    if box is None:
        if event.revision != 1:
            model.blame("TG8", f"{event.name} is registered for the first time with revision {event.revision}")
        model.boxes[event.node] = Box(
            policy=event.policy,
            revision=event.revision,
            cursor=event.cursor,
            scheduled=scheduled,
            source=event.source,
            topic=event.topic,
            inner=event.inner,
        )
        return
    if event.revision != box.revision + 1:
        model.blame("TG8", f"revision {event.revision} of {event.name} comes after {box.revision}")
    if isinstance(box.cursor, float) and (not isinstance(event.cursor, float) or event.cursor < box.cursor):
        model.blame("TG2", f"{event.name} is changed and its cursor goes from {box.cursor} to {event.cursor}")
    other = event.source != box.source and event.cursor is None
    if event.topic != box.topic:  # it begins where that topic is now
        other = _position(event.cursor) >= _position(box.cursor)
    if not scheduled and event.cursor != box.cursor and not other:
        model.blame("TG2", f"{event.name} is changed and its cursor goes from {box.cursor} to {event.cursor}")
    if event.source != box.source and model.get(event.node).state in _POLLING:
        model.blame("TG8", f"{event.name} reads another source, and what the poll of the old one brings still counts")
    box.policy, box.revision, box.cursor, box.source = event.policy, event.revision, event.cursor, event.source
    box.topic = event.topic


def _position(cursor: Any) -> int:
    """The place of a cursor on a topic."""
    return int(cursor) if isinstance(cursor, str) and cursor.isdecimal() else -1


def _listened(model: Model, event: e.TriggerAdvanced | e.TriggerReceived) -> None:
    """What happens on a topic is taken in once and in order: its cursor moves on with every fact, and never back."""
    by_hand = isinstance(event, e.TriggerReceived) and all(item.by_hand for item in event.items)
    if by_hand and event.cursor == event.after:
        return
    if _position(event.cursor) <= _position(event.after):
        model.blame(
            "TG2", f"what {event.node} listens to comes in, and its cursor goes from {event.after} to {event.cursor}"
        )


def _polled(model: Model, box: Box, event: e.TriggerAdvanced | e.TriggerReceived) -> None:
    """The cursor of a source is moved by the current poll, once, or by a person; items come with it."""
    if isinstance(event, e.TriggerAdvanced) and event.reason == "rewound":
        if model.get(event.node).state in _POLLING:
            model.blame("TG8", f"{event.node} is rewound, and what a poll before brings still counts")
        return
    if not event.poll:
        if event.cursor != event.after:
            model.blame("TG8", f"the cursor of {event.node} is moved by no poll")
        return
    act = model.get(event.node, event.scope)
    if event.poll != act.attempt or act.state not in _POLLING or (event.scope, event.poll) == box.polled:
        model.blame("TG8", f"poll {event.poll} of {event.node} moves the cursor; current is {act.attempt}")
    if isinstance(event, e.TriggerReceived) and event.cursor == event.after:
        model.blame("TG2", f"items of {event.node} come in, and the cursor stays: they would come again")
    box.polled = (event.scope, event.poll)
    act.crashes = act.failures = 0


def find_box(model: Model, event: MailboxEvent) -> Box | None:
    box = model.boxes.get(event.node)
    if box is None:
        model.blame("TG2", f"{event.type} of {event.node}, which is not registered")
    return box


def moved(model: Model, event: e.TriggerAdvanced | e.TriggerReceived) -> None:
    box = find_box(model, event)
    if box is None:
        return
    before = box.lanes[event.lane][0] if event.lane else box.cursor
    if before != event.after:
        model.blame("TG2", f"the cursor of {event.node} is at {before}, and is moved from {event.after}")
    if box.source:
        _polled(model, box, event)
    if box.topic:
        _listened(model, event)
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
    if box.inner and event.inputs is not None:
        box.contents |= {item.number: given for item, given in zip(event.items, event.inputs, strict=False)}
    for item in event.items:
        if item.number != box.position + 1:
            model.blame("TG1", f"item {item.number} comes after {box.position}")
        box.position = item.number
        box.fates[item.number], box.items[item.number] = "waiting", item
        if item.window:
            _joins(model, box, item)
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


def _joins(model: Model, box: Box, item: Item) -> None:
    """An item opens a window, or joins that of its key as long as it is open (TG13)."""
    if item.window == item.number:
        box.windows[item.number] = Grouped(item.key, item.at, item.at)
        box.newest[item.key] = item.number
    elif item.window not in box.windows or box.windows[item.window].key != item.key:
        model.blame("TG13", f"item {item.number} joins window {item.window}, which is none of its key")
        return
    elif _is_over(box, item.window, item.at - ROUNDING):
        model.blame("TG13", f"item {item.number} joins window {item.window}, which is closed")
    window = box.windows[item.window]
    window.last, window.count = (
        item.at,
        window.count + 1 if box.policy.window and box.policy.window.keep == "all" else 1,
    )


def _is_over(box: Box, number: int, at: float) -> bool:
    how, window = box.policy.window, box.windows[number]
    if how is None or box.newest.get(window.key) != number or window.count >= how.items:
        return True
    waiting = {one.window for one in box.items.values() if one.window}
    crowded = len(waiting) > MOST_WINDOWS and number == min(waiting)
    return crowded or at - window.first >= how.within or (0 < how.quiet <= at - window.last)


def _together(model: Model, box: Box, start: Begun, at: float) -> None:
    """All of a window starts at once, and when it is closed (TG13)."""
    items = [box.items[number] for number in start.numbers if number in box.items]
    windows = {item.window for item in items}
    if len(items) != len(start.numbers) or (windows == {0} and len(items) == 1):
        return
    if len(windows) != 1 or 0 in windows:
        model.blame("TG13", f"{start.run_id} is started for items of several windows: {start.numbers}")
        return
    (number,) = windows
    left = [n for n, one in box.items.items() if one.window == number and box.fates[n] == "waiting"]
    if sorted(left) != list(start.numbers):
        model.blame("TG13", f"window {number} holds {sorted(left)}, and {start.run_id} is started for {start.numbers}")
    if not _is_over(box, number, at + ROUNDING):
        model.blame("TG13", f"window {number} is open, and {start.run_id} is started for it")
    if not start.run_id.endswith(run_of_window("", (item.id for item in items))):
        model.blame("TG4", f"{start.run_id} is not the run of window {number}")


def _paced(model: Model, box: Box, count: int, at: float) -> None:
    rate = box.policy.rate
    if rate is None:
        return
    gone = max(0.0, at - box.used_at) * rate.limit / rate.per
    box.used, box.used_at = max(0.0, box.used - gone) + count, at
    if box.used > rate.limit + 0.001:
        model.blame("TG5", f"{count} runs start, and the rate allows {rate.limit} in {rate.per} seconds")


def set_fate(model: Model, box: Box, numbers: Iterable[int], fate: Fate) -> list[Item]:
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
    box = find_box(model, event)
    if box is not None:
        set_fate(model, box, event.numbers, "skipped")
        if bool(event.numbers) == bool(event.count):
            model.blame("TG1", f"{event.type} is about items or about moments: {event.numbers}, {event.count}")


def started(model: Model, event: e.TriggerStarted) -> None:
    box = find_box(model, event)
    if box is None:
        return
    if model.state != "running":
        model.blame("TG9", f"the trigger is {model.state}, and starts {event.starts[0].run_id}")
    _paced(model, box, len(event.starts), event.at)
    for start in event.starts:
        _together(model, box, start, event.at)
        found = set_fate(model, box, start.numbers, "started")
        if found:
            _starts(model, box, found[-1], start.run_id)


def _starts(model: Model, box: Box, item: Item, run_id: str) -> None:
    if not item.window and run_id != item.run_id:
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
    box = find_box(model, event)
    for end in event.ends if box is not None else ():
        item = box.open.pop(end.run_id, None) if box is not None else None
        if item is None or item.number != end.number:
            model.blame("TG3", f"{end.run_id} ends for item {end.number}, and is not open for it")


def parked(model: Model, event: e.TriggerParked) -> None:
    box = find_box(model, event)
    if box is not None:
        set_fate(model, box, (event.number,), "parked")


def released(model: Model, event: e.TriggerReleased) -> None:
    box = find_box(model, event)
    if box is None:
        return
    if box.fates.get(event.number) != "parked":
        model.blame("TG1", f"item {event.number} is released, and was {box.fates.get(event.number, 'not received')}")
    item = box.items.pop(event.number, None)
    box.fates[event.number] = "waiting" if event.as_ == "again" else "skipped"
    if box.inner:
        box.contents[event.number] = event.inputs
    if item is not None and event.as_ == "again":
        alone = event.number if box.policy.window is not None and not item.by_hand else 0
        box.items[event.number] = msgspec.structs.replace(item, key=event.key, window=alone)
        if alone:  # no other item joins it
            box.windows[alone] = Grouped(event.key, event.at, event.at, 1)
            box.newest = {key: number for key, number in box.newest.items() if number != alone}


def backfilling(model: Model, event: e.TriggerBackfilling) -> None:
    box = find_box(model, event)
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
        windows={n: Grouped(one.key, one.first, one.last, len(one.numbers)) for n, one in held.windows.items()},
        newest=dict(held.newest),
        used=held.level,
        used_at=held.level_at,
        position=held.position,
        source=held.source,
        topic=held.topic,
        inner=held.inner,
        contents={int(number): given for number, given in (event.inputs or {}).items()} if held.inner else {},
    )
