"""The subscriptions of a run: where it takes in what happens, derived from its state alone (J5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.journal import Subscription
from perdure.kernel import events as e
from perdure.kernel.address import parse_task_id
from perdure.kernel.run_ids import place as spot
from perdure.kernel.state import Activation, State
from perdure.kernel.triggers.mailbox import Mailbox
from perdure.runtime.coordinator.triggers.topic_names import event_topic

Subscribed = dict[str, Subscription]


def place_of_trigger(box: Mailbox, node: str) -> str:
    """The place of a mailbox: that of the trigger, whichever run it has gone on as."""
    return f"{box.trigger}/{node}"


def key_of_source(spec: Any) -> str:
    """The key of the events that a trigger listens to; empty: whichever they have."""
    source = spec.get("source") if isinstance(spec, dict) else None
    return str(source.get("key") or "") if isinstance(source, dict) and source.get("kind") == "event" else ""


def _of_boxes(state: State) -> Subscribed:
    return {
        place_of_trigger(box, node): Subscription(
            tenant=state.tenant,
            topic=box.topic,
            key=key_of_source(box.spec),
            run_id=state.run_id,
            place=place_of_trigger(box, node),
            since=int(box.cursor) if isinstance(box.cursor, str) else 0,
        )
        for node, box in state.triggers.items()
        if box.topic
    }


def subscriptions_of(state: State) -> Subscribed:
    """Every subscription, by place."""
    if state.terminal:
        return {}
    found = _of_boxes(state)
    for activation in state.activations.values():
        if _listens(activation):
            one = _of_wait(state, activation)
            found[one.place] = one
    return found


def _listens(activation: Activation) -> bool:
    return activation.wait is not None and activation.wait.kind == "event"


def _of_wait(state: State, activation: Activation) -> Subscription:
    wait = activation.wait
    assert wait is not None
    return Subscription(
        tenant=state.tenant,
        topic=event_topic(wait.name),
        key=wait.key,
        run_id=state.run_id,
        place=state.address(activation).task_id,
        since=wait.since,
        since_at=wait.since_at,
    )


def subscriptions_after(state: State, before: Subscribed, events: Sequence[Any]) -> Subscribed:
    """Every subscription after these events, which is looked for only where there may be one."""
    if state.terminal:
        return {} if before else before
    boxes = _of_boxes(state)
    waits = {place: one for place, one in before.items() if one.since_at is not None}
    begun = [event for event in events if type(event) is e.NodeWaiting and event.wait.kind == "event"]
    if not waits and not begun:
        return before if boxes == before else boxes
    touched = _find_touched(state, events)
    now = {
        place: one
        for place, one in waits.items()
        if (touched is not None and place.rpartition("/")[0] not in touched) or _is_open(state, place)
    }
    for event in begun:
        activation = state.find(event.node, event.scope, event.item)
        if activation is not None and _listens(activation):
            one = _of_wait(state, activation)
            now[one.place] = one
    now |= boxes
    return before if now == before else now


def _find_touched(state: State, events: Sequence[Any]) -> set[str] | None:
    """The activations that these events are about; None, where they may be about all."""
    if not all(isinstance(event, e.NodeEvent) for event in events):
        return None
    return {f"{state.run_id}/{spot(event.node, event.scope, event.item)}" for event in events}


def _is_open(state: State, place: str) -> bool:
    """Whether the wait at this place goes on: an activation that has waited and waits again has another place."""
    address = parse_task_id(place)
    activation = None if address is None else state.locate(address)
    return activation is not None and _listens(activation) and state.address(activation).task_id == place


def find_left(state: State, before: Mapping[str, Subscription], now: Mapping[str, Subscription]) -> set[str]:
    """The places that are given up. A run that has gone on as another leaves those of its triggers to that: were they cleared, what
    happens before the next run begins would be kept for nobody."""
    gone = set() if before is now else set(before) - set(now)
    if (
        state.terminal and state.continued_as is None
    ):  # it may have begun and ended in one append, and its row is of the run before
        gone |= _of_boxes(state).keys()
    return gone if state.continued_as is None else {place for place in gone if before[place].since_at is not None}
