"""Dead letters of items: those that a trigger could start no run for are listed, requeued and discarded like parked nodes (rule 50).

A letter belongs to the run that the trigger is at the time. When that goes on as another run, its letters are over, and the
successor has letters of its own for what it took over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from perdure.journal import DeadLetterRow
from perdure.kernel import events as e
from perdure.kernel.state import State
from perdure.kernel.triggers.mailbox import Parked

_TOUCHING = (e.TriggerParked, e.TriggerReleased, e.TriggerCarried)


def item_letter_id(state: State, node: str, number: int) -> str:
    return f"{state.run_id}:{node}:{number}"


def find_item_letters(state: State) -> dict[str, DeadLetterRow]:
    """The letters of the items that are parked now, by their ids."""
    if state.terminal:
        return {}
    return {
        item_letter_id(state, node, number): _row(state, node, number, parked)
        for node, box in state.triggers.items()
        for number, parked in box.parked.items()
    }


def _row(state: State, node: str, number: int, parked: Parked) -> DeadLetterRow:
    body = {
        "scope": (),
        "item": number,
        "attempt": 0,
        "undo": False,
        "error": parked.error,
        "by": None,
        "seq": state.seq,
        "trigger": state.triggers[node].name,
    }
    return DeadLetterRow(
        dead_letter_id=item_letter_id(state, node, number),
        run_id=state.run_id,
        node=node,
        state="pending",
        tenant=state.tenant,
        created_at=parked.item.at,
        body=msgspec.json.encode(body),
    )


def touches_letters(state: State, events: Iterable[Any]) -> bool:
    """Whether the events may have parked an item, or let one go."""
    return state.terminal or any(isinstance(event, _TOUCHING) for event in events)


def resolve_item_letter(row: DeadLetterRow, state: State, at: float, events: Iterable[Any] = ()) -> DeadLetterRow:
    """The row of a letter whose item is parked no longer: by whom, if a person decided on it."""
    asked, by = "requeued" if state.continued_as is not None else "discarded", ""
    for event in events:
        if (
            isinstance(event, e.TriggerReleased)
            and item_letter_id(state, event.node, event.number) == row.dead_letter_id
        ):
            asked, by = ("requeued" if event.as_ == "again" else "discarded"), event.by
    body = msgspec.json.encode({**msgspec.json.decode(row.body), "by": by or None})
    return msgspec.structs.replace(row, state=asked, resolved_at=at, body=body)
