"""What happened on a topic, as the command that ends a wait for it (rule 53).

Which of the events is the one is found beside the loop: `match` is code of the workflow, and what it looks at may have been sent
by any sender. Decides nothing and keeps nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from perdure.blobs import WITH_REFS, BlobStore
from perdure.budget import Budget, OverBudget
from perdure.expressions import cel
from perdure.expressions.at_hand import AtHand, Lost
from perdure.expressions.errors import NotAtHand
from perdure.journal import Occurrence, Subscription
from perdure.kernel import commands as c
from perdure.kernel.address import Address, parse_task_id
from perdure.kernel.state import State
from perdure.kernel.values import Wait
from perdure.nodes.wait import MATCH_NAMES
from perdure.runtime.coordinator.kept_inputs import Kept, weigh_inputs
from perdure.runtime.coordinator.triggers.topic_names import Sent
from perdure.threads import aside

logger = logging.getLogger("perdure.topics")


class Found(msgspec.Struct):
    """The first of the events that match."""

    event: str = ""
    """The id of the event; empty: none matches."""
    position: int = 0
    output: Any = None
    output_ref: str | None = None
    size: int = 0


class NeedsMatched(NotAtHand):
    """The events that were read for a wait must be looked at first."""

    code = "needs_matched"

    def __init__(self, key: str, wait: Wait, happened: Sequence[Occurrence]) -> None:
        super().__init__(key, "the events that were read for a wait must be looked at first")
        self.wait = wait
        self.happened = happened


def hear_for_wait(
    state: State, read: Subscription, happened: Sequence[Occurrence], at: float, at_hand: AtHand | None
) -> c.HearEvent:
    """The command that ends the wait at this place, or is refused: it has ended, or nothing matches. Raises NeedsMatched."""
    address = parse_task_id(read.place) or Address(state.run_id, "")
    last = happened[-1].position
    about: dict[str, Any] = {"at": at, "id": "topic", "address": address}
    activation = state.locate(address)
    wait = None if activation is None else activation.wait
    if wait is None or wait.kind != "event":
        return c.HearEvent(**about, position=last)
    if at_hand is None:
        found: Found | Lost = _look_through(wait, happened)[0]
    else:
        key = f"event:{read.place}:{happened[0].position}:{last}"
        if key not in at_hand:
            raise NeedsMatched(key, wait, happened)
        found = at_hand[key]
    if isinstance(found, Lost) or not found.event:
        return c.HearEvent(**about, position=last)
    given = {"output": found.output, "output_ref": found.output_ref, "size": found.size}
    return c.HearEvent(**about, position=found.position, event=found.event, **given)


async def match_events(blobs: BlobStore, tenant: str, need: NeedsMatched) -> Found:
    """The first event that matches, with a large payload stored. Raises StoreUnavailable."""
    found, kept = await aside(tenant, _look_through, need.wait, need.happened)
    if kept is None or kept.data is None:
        return found
    ref = await blobs.put(tenant, kept.data)
    return msgspec.structs.replace(found, output=None, output_ref=ref + WITH_REFS if kept.refs else ref)


def _look_through(wait: Wait, happened: Sequence[Occurrence]) -> tuple[Found, Kept | None]:
    budget = Budget()
    for one in happened:
        sent = msgspec.json.decode(one.body, type=Sent)
        if wait.match and not _matches(wait, one, sent.payload, budget):
            continue
        kept = weigh_inputs(sent.payload)
        return Found(one.id, one.position, sent.payload, None, kept.size), kept
    return Found(), None


def _matches(wait: Wait, one: Occurrence, payload: Any, budget: Budget) -> bool:
    """Whether an event matches. What a sender says must not end a wait with an error: what cannot be compared does not match."""
    budget.steps = max(budget.steps, 0) + MATCH_STEPS
    try:
        return cel.evaluate(wait.match, {"event": payload, "given": wait.given}, budget, MATCH_NAMES)
    except (cel.CelError, OverBudget, RecursionError) as error:
        logger.info("event %s of %s does not match %s: %s", one.id, one.topic, wait.match, error)
        return False


MATCH_STEPS = 10_000
"""What looking at one event adds to the budget that all events of a page share."""
