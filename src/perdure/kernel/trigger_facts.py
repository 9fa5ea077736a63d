"""What the events of a mailbox do to the state (rules 45 to 50)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from perdure.kernel import events as e
from perdure.kernel.edges import clear_timer
from perdure.kernel.facts import folds
from perdure.kernel.mailbox import SEEN, Firing, Item, Lane, Mailbox, Parked
from perdure.kernel.state import IntegrityError, State
from perdure.kernel.trigger_events import MailboxEvent


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
        )
        state.add(state.triggers, event.node, box)
        return
    state.edit(known)
    known.spec, known.policy, known.revision, known.cursor = event.spec, event.policy, event.revision, event.cursor


@folds(e.TriggerReceived)
def _received(state: State, event: e.TriggerReceived) -> None:
    box = get_box(state, event)
    _move(state, box, event)
    inputs = event.inputs if event.inputs is not None else [None] * len(event.items)
    for item, given in zip(event.items, inputs, strict=True):
        if item.number != box.position + 1:
            raise IntegrityError(f"run {state.run_id}: item {item.number} comes after {box.position} (TG1)")
        box.position = item.number
        box.counted += item.nominal is not None and not item.lane
        state.put(box.waiting, item.number, msgspec.structs.replace(item, inputs=given))
        _remember(state, box, item)


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
    _move(state, get_box(state, event), event)


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
    _remove(state, get_box(state, event), event.numbers)


@folds(e.TriggerStarted)
def _started(state: State, event: e.TriggerStarted) -> None:
    box = get_box(state, event)
    for start in event.starts:
        items = _remove(state, box, start.numbers)
        last = items[-1]
        if box.mode(last) != "allow":
            state.put(box.open, start.run_id, Firing(last.number, last.key, last.lane))


@folds(e.TriggerEnded)
def _ended(state: State, event: e.TriggerEnded) -> None:
    box = get_box(state, event)
    for end in event.ends:
        state.drop(box.open, end.run_id)
        if end.state == "failed":
            box.failures += 1
        elif end.state == "completed":
            box.failures = 0


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
        item = msgspec.structs.replace(parked.item, key=event.key, inputs=event.inputs)
        state.put(box.waiting, event.number, item)


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
    box = msgspec.structs.replace(event.mailbox)
    given: dict[str, Any] = event.inputs or {}
    box.waiting = {n: _with(item, given) for n, item in box.waiting.items()}
    box.parked = {n: Parked(_with(one.item, given), one.error) for n, one in box.parked.items()}
    box.open, box.seen, box.recent = dict(box.open), dict(box.seen), list(box.recent)
    box.lanes = {n: msgspec.structs.replace(lane) for n, lane in box.lanes.items()}
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
        taken.append(item)
    return taken
