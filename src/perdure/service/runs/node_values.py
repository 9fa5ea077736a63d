"""What one node of a run was given and what it gave, by visit and item, and the items of a map.

It must not know HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from perdure.errors import NotFound
from perdure.journal import RunRecord
from perdure.kernel import events as e
from perdure.kernel.lifecycle import NodeState
from perdure.kernel.readings.explain import find_latest
from perdure.kernel.readings.run_view import activation_view
from perdure.kernel.readings.seen import JOURNAL, Seen
from perdure.kernel.segments import BlobRef
from perdure.kernel.state import Activation, State, key_of
from perdure.service.runs.history import read_stored
from perdure.service.runs.run_events import LOOKED_AT
from perdure.service.views import View, get_node, without_outputs

if TYPE_CHECKING:
    from perdure.engine import Engine


class Which(msgspec.Struct, frozen=True, kw_only=True):
    """Which activation of a node is meant: the newest visit, unless one is given; and an item, if the node is a map."""

    node: str
    visit: int | None = None
    item: int | None = None

    def __str__(self) -> str:
        visit = "" if self.visit is None else f" has no visit {self.visit}"
        item = "" if self.item is None else f" has no item {self.item}"
        return f"node {self.node}{visit or item or ' has not begun'}"


def get_activation(state: State, which: Which) -> Activation:
    index = get_node(state, which.node)
    owner = find_latest(state, index)
    if which.visit is not None:
        visits = (one for one in state.activations.values() if one.node == index and one.item < 0)
        owner = next((one for one in visits if one.visit == which.visit), None)
    found = owner
    if owner is not None and which.item is not None:
        found = state.activations.get(key_of(index, owner.scope, which.item))
    if found is None:
        raise NotFound(f"run {state.run_id}: {which}")
    return found


def get_output(state: State, which: Which) -> Any:
    """What an activation gave; a large value as a reference to its blob."""
    found = get_activation(state, which)
    if found.state not in (NodeState.COMPLETED, NodeState.FAILED, NodeState.COMPENSATED):
        raise NotFound(f"run {state.run_id}: node {which.node} has given nothing yet; it is {found.state.value}")
    return found.output if found.output_ref is None else BlobRef(found.output_ref)


async def seq_of_attempt(engine: Engine, record: RunRecord, about: Activation, which: Which, attempt: int) -> int:
    """The event that scheduled an attempt, by the number that events have for it."""
    name = msgspec.json.encode(which.node)
    async for stored in read_stored(engine, record.run_id, after=max(record.seq - LOOKED_AT, 0), last=record.seq):
        if stored.type not in ("node.scheduled", "nodes.scheduled") or name not in stored.body:
            continue
        event = e.decode(stored.body)
        places = event.places if isinstance(event, e.NodesScheduled) else (event,)
        for place in places:
            if isinstance(place, e.NodeEvent | e.Place) and _is_of(place, about, which, attempt):
                return stored.seq
    raise NotFound(f"run {record.run_id}: node {which.node} has no attempt {attempt} there")


def _is_of(place: e.NodeEvent | e.Place, about: Activation, which: Which, attempt: int) -> bool:
    named = (place.node, place.scope, place.item, place.attempt)
    return named == (which.node, about.scope, which.item, attempt)


def items_of(state: State, which: Which, wanted: str | None, after: int, limit: int, seen: Seen = JOURNAL) -> View:
    """A page of the items of a map, in order: those behind number `after`, of one state if that is wanted."""
    owner = get_activation(state, which)
    items: list[dict[str, Any]] = []
    number = after
    for number in range(after + 1, owner.items_started):
        found = state.activations.get(key_of(owner.node, owner.scope, number))
        if found is None or (wanted is not None and seen.state(found).value != wanted):
            continue
        items.append({"item": number, **activation_view(state, found, seen)})
        if len(items) == limit:
            break
    without_outputs(items)
    more = number + 1 < owner.items_started
    return {"items": items, "next_cursor": str(number) if more and items else None}
