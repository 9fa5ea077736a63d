"""What the events of a mailbox do to the state (rules 45 to 50)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from perdure.kernel import events as e
from perdure.kernel.edges import clear_timer
from perdure.kernel.facts.fold_rules import folds
from perdure.kernel.lifecycle import IntegrityError
from perdure.kernel.state import State
from perdure.kernel.triggers.mailbox import SEEN, Firing, Item, Lane, Mailbox, Parked, Window
from perdure.kernel.triggers.rates import measure
from perdure.kernel.triggers.trigger_events import MailboxEvent


def timer_of(node: str) -> str:
    """The one timer of a mailbox."""
    return f"trigger:{node}"


def get_box(state: State, event: MailboxEvent) -> Mailbox:
    box = state.triggers.get(event.node)
    if box is None:
        raise IntegrityError(f"run {state.run_id}: {event.node} is not registered (TG2)")
    found: Mailbox = state.edit(box)
    return found


@folds(e.TriggerRegistered)
def _registered(state: State, event: e.TriggerRegistered) -> None:
    known = state.triggers.get(event.node)
    clear_timer(state, timer_of(event.node))
    if known is None:
        box = Mailbox(
            trigger=state.run_id,
            name=event.name,
            kind=event.kind,
            spec=event.spec,
            policy=event.policy,
            revision=event.revision,
            cursor=event.cursor,
            by=event.by,
            hook=event.hook,
            source=event.source,
            manner=event.manner,
            begins=event.begins,
            topic=event.topic,
            inner=event.inner,
        )
        state.add(state.triggers, event.node, box)
        return
    state.edit(known)
    if event.source != known.source:
        known.ended, known.again, known.last, known.more = False, "", "", True
        known.begins = event.begins
    known.source, known.manner, known.topic, known.by = event.source, event.manner, event.topic, event.by
    known.spec, known.policy, known.revision, known.cursor = event.spec, event.policy, event.revision, event.cursor


@folds(e.TriggerReceived)
def _received(state: State, event: e.TriggerReceived) -> None:
    box = get_box(state, event)
    _move(state, box, event)
    inputs = event.inputs if event.inputs is not None else [None] * len(event.items)
    for item, given in zip(event.items, inputs, strict=True):
        if item.number != box.position + 1:
            raise IntegrityError(f"run {state.run_id}: item {item.number} comes after {box.position} (TG1)")
        box.position, box.last_at = item.number, item.at
        box.counted += item.nominal is not None and not item.lane
        state.put(box.waiting, item.number, msgspec.structs.replace(item, inputs=given))
        box.bytes += item.size
        box.apart += _is_apart(item)
        if item.window:
            _group(state, box, item)
        _remember(state, box, item)
        if event.poll:
            box.last = item.id
            if item.id == box.again:
                box.again = ""
    if event.poll:
        _answered(state, box, event)


def _answered(state: State, box: Mailbox, event: e.TriggerReceived | e.TriggerAdvanced) -> None:
    """A poll has come back: what failed before it is over."""
    box.polled, box.polled_in, box.more, box.ended = event.poll, event.scope, event.more, event.end
    activation = state.find(event.node, event.scope)
    if activation is not None:
        state.edit(activation)
        activation.failures = activation.crashes = 0
        activation.error = None


def _is_apart(item: Item) -> bool:
    return bool(item.lane) or item.overlap is not None


def _group(state: State, box: Mailbox, item: Item) -> None:
    """Put an item into its window. The first one opens it."""
    window = box.windows.get(item.window)
    if window is None:
        window = Window(item.key, item.at, item.at)
        state.add(box.windows, item.window, window)
        state.put(box.newest, item.key, item.window)
    state.edit(window).last = item.at
    state.push(window.numbers, item.number)


def _remember(state: State, box: Mailbox, item: Item) -> None:
    if item.run_id not in box.seen:
        state.push(box.recent, item.run_id)
    state.put(box.seen, item.run_id, item.number)
    if len(box.recent) - box.head > SEEN:
        state.drop(box.seen, box.recent[box.head])
        box.head += 1
        if box.head > SEEN:
            box.recent, box.head = box.recent[box.head :], 0


@folds(e.TriggerAdvanced)
def _advanced(state: State, event: e.TriggerAdvanced) -> None:
    box = get_box(state, event)
    _move(state, box, event)
    if event.poll:
        _answered(state, box, event)
    if event.reason == "rewound":
        box.ended, box.more, box.again = False, True, event.upto
        box.round = max(box.round, event.round)
        box.begins = event.begins or box.begins


def _move(state: State, box: Mailbox, event: e.TriggerReceived | e.TriggerAdvanced) -> None:
    """Move the cursor of the mailbox, or of a lane. Who moves it names where it was."""
    lane = state.edit(box.lanes[event.lane]) if event.lane else None
    if (box.cursor if lane is None else lane.cursor) != event.after:
        raise IntegrityError(f"run {state.run_id}: the cursor of {event.node} is not at {event.after!r} (TG2)")
    if lane is None:
        box.cursor = event.cursor
    else:
        lane.cursor = event.cursor


@folds(e.TriggerSkipped)
def _skipped(state: State, event: e.TriggerSkipped) -> None:
    box = get_box(state, event)
    _remove(state, box, event.numbers)
    count = event.count + len(event.numbers)
    state.put(box.skipped, event.reason, box.skipped.get(event.reason, 0) + count)
    if event.reason == "paused" and event.until is not None and isinstance(box.cursor, float):
        box.missed = (box.cursor if box.missed is None else box.missed[0], event.until)


@folds(e.TriggerStarted)
def _started(state: State, event: e.TriggerStarted) -> None:
    box = get_box(state, event)
    if box.policy.rate is not None:
        box.level, box.level_at = measure(box, event.at) + len(event.starts), event.at
    for start in event.starts:
        items = _remove(state, box, start.numbers)
        last = items[-1]
        if box.mode(last) != "allow":
            state.put(box.open, start.run_id, Firing(last.number, last.key, last.lane, last.nominal, last.at))


@folds(e.TriggerHanded)
def _handed(state: State, event: e.TriggerHanded) -> None:
    _remove(state, get_box(state, event), (event.number,))


@folds(e.TriggerEnded)
def _ended(state: State, event: e.TriggerEnded) -> None:
    box = get_box(state, event)
    for end in event.ends:
        firing = box.open.get(end.run_id)
        state.drop(box.open, end.run_id)
        if end.state == "failed":
            box.failures += 1
        elif end.state == "completed":
            box.failures = 0
            if firing is not None and firing.moment is not None:
                box.succeeded = max(firing.moment, firing.moment if box.succeeded is None else box.succeeded)


@folds(e.TriggerParked)
def _parked(state: State, event: e.TriggerParked) -> None:
    box = get_box(state, event)
    (item,) = _remove(state, box, (event.number,))
    state.put(box.parked, event.number, Parked(item, event.error))


@folds(e.TriggerReleased)
def _released(state: State, event: e.TriggerReleased) -> None:
    box = get_box(state, event)
    parked = box.parked.get(event.number)
    if parked is None:
        raise IntegrityError(f"run {state.run_id}: item {event.number} of {event.node} is not parked (TG1)")
    state.drop(box.parked, event.number)
    if event.as_ == "again":
        alone = event.number if box.policy.window is not None and not parked.item.by_hand else 0
        by = event.by or parked.item.by
        item = msgspec.structs.replace(parked.item, key=event.key, inputs=event.inputs, window=alone, by=by)
        state.put(box.waiting, event.number, item)
        box.bytes += item.size
        box.apart += _is_apart(item)
        if alone:  # it is not the newest of its key, so no other item joins it
            state.add(box.windows, alone, Window(event.key, event.at, event.at, [alone]))


@folds(e.TriggerBackfilling)
def _backfilling(state: State, event: e.TriggerBackfilling) -> None:
    box = get_box(state, event)
    used = {item.lane for item in box.waiting.values()} | {firing.lane for firing in box.open.values()}
    used |= {parked.item.lane for parked in box.parked.values()}
    for number, lane in list(box.lanes.items()):
        if lane.cursor >= lane.until and number not in used:
            state.drop(box.lanes, number)
    box.laned, box.round = event.lane, max(box.round, event.round)
    state.add(box.lanes, event.lane, Lane(event.since, event.until, event.round, event.open))


@folds(e.TriggerCarried)
def _carried(state: State, event: e.TriggerCarried) -> None:
    box = msgspec.structs.replace(event.mailbox, polled=0, polled_in=())
    given: dict[str, Any] = event.inputs or {}
    box.waiting = {n: _with(item, given) for n, item in box.waiting.items()}
    box.parked = {n: Parked(_with(one.item, given), one.error) for n, one in box.parked.items()}
    box.open, box.seen, box.recent = dict(box.open), dict(box.seen), list(box.recent)
    box.lanes = {n: msgspec.structs.replace(lane) for n, lane in box.lanes.items()}
    box.newest, box.skipped = dict(box.newest), dict(box.skipped)
    box.windows = {n: msgspec.structs.replace(one, numbers=list(one.numbers)) for n, one in box.windows.items()}
    state.add(state.triggers, event.node, box)


def _with(item: Item, given: dict[str, Any]) -> Item:
    return msgspec.structs.replace(item, inputs=given.get(str(item.number)))


def _remove(state: State, box: Mailbox, numbers: Iterable[int]) -> list[Item]:
    """Take items out of those that wait: each has one fate."""
    taken = []
    for number in numbers:
        item = box.waiting.get(number)
        if item is None:
            raise IntegrityError(f"run {state.run_id}: item {number} of {box.name} does not wait (TG1)")
        state.drop(box.waiting, number)
        box.bytes -= item.size
        box.apart -= _is_apart(item)
        taken.append(item)
    for number, gone in _sort_out(taken).items():
        window = state.edit(box.windows[number])
        window.numbers = [one for one in window.numbers if one not in gone]
        if not window.numbers:
            state.drop(box.windows, number)
            if box.newest.get(window.key) == number:
                state.drop(box.newest, window.key)
    return taken


def _sort_out(items: list[Item]) -> dict[int, set[int]]:
    """The numbers of items by their window."""
    found: dict[int, set[int]] = {}
    for item in items:
        if item.window:
            found.setdefault(item.window, set()).add(item.number)
    return found
