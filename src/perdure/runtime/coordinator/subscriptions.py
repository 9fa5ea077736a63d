"""The subscriptions of a run: where it takes in what happens, derived from its state alone (J5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from perdure.journal import Subscription
from perdure.kernel.mailbox import Mailbox
from perdure.kernel.state import State

Subscribed = dict[str, Subscription]


def place_of_trigger(box: Mailbox, node: str) -> str:
    """The place of a mailbox: that of the trigger, whichever run it has gone on as."""
    return f"{box.trigger}/{node}"


def subscriptions_of(state: State) -> Subscribed:
    """Every subscription, by place."""
    if state.terminal:
        return {}
    return {
        place_of_trigger(box, node): Subscription(
            tenant=state.tenant,
            topic=box.topic,
            run_id=state.run_id,
            place=place_of_trigger(box, node),
            since=int(box.cursor) if isinstance(box.cursor, str) else 0,
        )
        for node, box in state.triggers.items()
        if box.topic
    }


def subscriptions_after(state: State, before: Subscribed, events: Iterable[Any]) -> Subscribed:
    """Every subscription after these events, which is looked for only where there may be one."""
    return subscriptions_of(state) if before or state.triggers else before


def find_left(state: State, before: Mapping[str, Subscription], now: Mapping[str, Subscription]) -> set[str]:
    """The places that are given up. A run that has gone on as another leaves its places to that: were they cleared, what happens
    before the next run begins would be kept for nobody."""
    return set() if state.continued_as is not None else set(before) - set(now)
