"""Triggers inside a run: what an activation of one asks of the kernel (rule 54). Decides nothing and keeps nothing."""

from __future__ import annotations

from typing import Any

from perdure.expressions.at_hand import AtHand, Lost
from perdure.expressions.errors import NotAtHand
from perdure.journal import Journal
from perdure.kernel import commands as c
from perdure.kernel.state import State
from perdure.kernel.triggers.events_heard import SKEW_SECONDS, begin_of
from perdure.model.triggers import Trigger
from perdure.nodes.registry import Awaiting
from perdure.runtime.coordinator.heard import topic_of
from perdure.runtime.coordinator.triggers.poll_tasks import names_of
from perdure.runtime.coordinator.triggers.schedules import policy_of, spec_of
from perdure.runtime.coordinator.triggers.subscriptions import key_of_source


class NeedsPosition(NotAtHand):
    """Where a topic stood when the run began must be looked up first."""

    code = "needs_position"

    def __init__(self, key: str, topic: str, event_key: str, since: float) -> None:
        super().__init__(key, f"where {topic} stood must be looked up first")
        self.topic = topic
        self.event_key = event_key
        self.since = since


def make_await(state: State, answer: Awaiting, about: dict[str, Any], at_hand: AtHand | None) -> c.Await:
    """The command by which an activation wants the next item. Raises NeedsPosition."""
    node, trigger = about["address"].node, answer.trigger
    source, manner = names_of(trigger)
    topic = topic_of(trigger)
    fields: dict[str, Any] = {"at": about["at"], "node": node, "name": node, "kind": trigger.kind, "inner": True}
    fields |= {"spec": spec_of(trigger), "policy": policy_of(trigger), "source": source, "manner": manner}
    if topic:
        fields |= {"topic": topic, "cursor": str(_get_position(state, node, trigger, topic, at_hand))}
    return c.Await(**about, registration=c.Register(**fields))


def _get_position(state: State, node: str, trigger: Trigger, topic: str, at_hand: AtHand | None) -> int:
    if at_hand is None:
        return 0
    key = f"position:{state.run_id}:{node}"
    if key not in at_hand:
        raise NeedsPosition(key, topic, key_of_source(spec_of(trigger)), begin_of(state) - SKEW_SECONDS)
    found = at_hand[key]
    return 0 if isinstance(found, Lost) else int(found)


async def get_position(journal: Journal, tenant: str, need: NeedsPosition) -> int:
    """The position behind which everything has happened since that time. What happens while this looks is behind it, too."""
    last = await journal.last_occurrence()
    fields: dict[str, Any] = {"key": need.event_key or None, "after": 0, "since": need.since, "limit": 1}
    found = await journal.read_occurrences(tenant, need.topic, **fields)
    return min(last, found[0].position - 1) if found else last
