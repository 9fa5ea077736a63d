"""What the answer of a poll becomes for the kernel (rule 51).

Items are mapped under the revision that the mailbox has now: filter, key and inputs are data of the trigger, and a worker need
not know them. That is done beside the loop, in portions between which other tenants have their turn, and once: large inputs are
stored as they are made, and the message is decided again with all of it at hand. Decides nothing and keeps nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from perdure.blobs import BlobStore
from perdure.budget import Budget
from perdure.expressions.at_hand import AtHand, Lost
from perdure.expressions.errors import NotAtHand
from perdure.kernel import commands as c
from perdure.kernel.lifecycle import IntegrityError
from perdure.kernel.state import State
from perdure.kernel.triggers.mailbox import Mailbox
from perdure.kernel.values import Error
from perdure.model.triggers import Trigger
from perdure.runtime.coordinator.kept_inputs import Kept, store_inputs, weigh_inputs
from perdure.sources import MOST_ITEMS
from perdure.threads import aside
from perdure.triggers.mapping import (
    LONGEST_ID,
    UNMAPPED,
    UNREADABLE,
    Filtered,
    Poison,
    facts_of_item,
    gathers,
    map_item,
    polled_item,
)

MAP_STEPS = 10_000
"""What the mapping of one item adds to the budget that all items of a poll share."""
MAP_CHARACTERS = 100_000
PORTION_STEPS = 100_000
"""After how many steps other tenants have their turn."""


class _Item(msgspec.Struct):
    id: str
    data: Any = None
    error: str = ""


class _Brought(msgspec.Struct):
    """The answer of the handler (`runtime/poll_handler.py`)."""

    items: list[_Item]
    cursor: str
    after: str | None = None
    more: bool = False
    end: bool = False


class Page(msgspec.Struct):
    """What a poll brought, mapped."""

    brought: _Brought
    items: tuple[c.Delivered, ...]


class NeedsMapped(NotAtHand):
    """What a poll brought must be mapped first."""

    code = "needs_mapped"

    def __init__(self, key: str, spec: Any, at: float, output: Any, ref: str | None) -> None:
        super().__init__(key, "the items of a poll must be mapped first")
        self.spec = spec
        self.at = at
        self.output = output
        self.ref = ref


def map_aside(
    at_hand: AtHand | None, key: str, spec: Any, at: float, make: Callable[[], dict[str, Any]]
) -> tuple[c.Delivered, ...]:
    """Items of another kind of source, mapped as those of a poll are; `make` gives them, beside the loop. Raises NeedsMapped."""
    if at_hand is None:
        page = _map_all(read_page(make), spec, at)
    elif key not in at_hand:
        raise NeedsMapped(key, spec, at, make, None)
    else:
        page = at_hand[key]
    if isinstance(page, Lost):
        raise IntegrityError(f"what was heard cannot be mapped: {page.message}")
    return page.items


def receive_polled(state: State, command: c.Complete, at_hand: AtHand | None) -> c.Receive | c.Fail:
    """What a poll brought, mapped by the present revision of its trigger. Raises NeedsMapped. Without `at_hand` nothing can be
    stored: it is mapped on the spot, and stays where it is."""
    box = state.triggers[command.address.node]
    if at_hand is None:
        return _receive(box, command, _map_all(read_page(command.output), box.spec, command.at))
    key = _key_of(box, command)
    if key not in at_hand:
        raise NeedsMapped(key, box.spec, command.at, command.output, command.output_ref)
    return _receive(box, command, at_hand[key])


def _key_of(box: Mailbox, command: c.Complete) -> str:
    said = command.output_ref or hashlib.sha256(msgspec.json.encode(command.output, enc_hook=repr)).hexdigest()
    return f"mapped:{command.address.task_id}:{box.revision}:{said}"


def _receive(box: Mailbox, command: c.Complete, page: Page | Lost) -> c.Receive | c.Fail:
    about: dict[str, Any] = {"at": command.at, "id": command.id, "entropy": command.entropy, "address": command.address}
    if isinstance(page, Lost):
        return c.Fail(**about, error=Error("source_failed", f"what the poll brought cannot be read: {page.message}"))
    found = page.brought
    return c.Receive(
        **about,
        items=page.items,
        after=found.after,
        cursor=found.cursor,
        revision=box.revision,
        filtered=len(found.items) - len(page.items),
        more=found.more,
        end=found.end,
    )


# -- beside the loop ---------------------------------------------------------------------------------------------------


async def map_page(blobs: BlobStore, tenant: str, need: NeedsMapped, content: Any) -> Page | Lost:
    """What a poll brought, mapped in portions, with large inputs stored. Raises StoreUnavailable."""
    if isinstance(content, Lost):
        return content
    found = await aside(tenant, read_page, content)
    if isinstance(found, Lost):
        return found
    mapper, items = _Mapper(need.spec, need.at), []
    while mapper.done < len(found.items):
        made = await aside(tenant, mapper.map_portion, found.items)
        items += [await store_inputs(blobs, tenant, *one) for one in made]
    return Page(found, tuple(items))


def read_page(content: Any) -> _Brought | Lost:
    try:
        found = msgspec.convert(content() if callable(content) else content, _Brought)
    except msgspec.ValidationError as error:
        return Lost("source_failed", f"it is not understood: {error}")
    if len(found.items) > MOST_ITEMS or any(not 0 < len(one.id) <= LONGEST_ID for one in found.items):
        most = f"a poll brings at most {MOST_ITEMS} items, whose ids have 1 to {LONGEST_ID} characters"
        return Lost("source_failed", most)
    return found


def _map_all(found: _Brought | Lost, spec: Any, at: float) -> Page | Lost:
    if isinstance(found, Lost):
        return found
    mapper, made = _Mapper(spec, at), []
    while mapper.done < len(found.items):
        made += mapper.map_portion(found.items)
    return Page(found, tuple(delivered for delivered, _ in made))


class _Mapper:
    def __init__(self, spec: Any, at: float) -> None:
        self._trigger = msgspec.convert(spec, Trigger)
        self._facts = facts_of_item(at)
        self._budget = Budget()
        self.done = 0

    def map_portion(self, items: list[_Item]) -> list[tuple[c.Delivered, Kept]]:
        """The next items that the filter lets pass, as many as one turn has time for."""
        made: list[tuple[c.Delivered, Kept]] = []
        spent = 0
        while self.done < len(items) and spent < PORTION_STEPS:
            one = items[self.done]
            self.done += 1
            self._budget.steps = max(self._budget.steps, 0) + MAP_STEPS
            self._budget.characters = max(self._budget.characters, 0) + MAP_CHARACTERS
            before = self._budget.steps
            delivered = self._map(one)
            spent += before - self._budget.steps
            if delivered is not None:
                kept = weigh_inputs(delivered.inputs)
                spent += kept.size // 100
                made.append((delivered, kept))
        return made

    def _map(self, one: _Item) -> c.Delivered | None:
        if one.error:
            return c.Delivered(id=one.id, error=Error(UNREADABLE, one.error[:1000]))
        trigger = self._trigger
        item = polled_item(trigger, one.id, one.data)
        mapped = map_item(trigger, item, self._facts, id=one.id, budget=self._budget)
        if isinstance(mapped, Filtered):
            return None
        if isinstance(mapped, Poison):
            problem = Error(UNMAPPED, f"{mapped.part}: {mapped.message}"[:1000])
            return c.Delivered(id=one.id, inputs=item, error=problem)
        # Templates of a window are filled in when it closes; inside a run there are none, and the item is what is given (rule 54).
        whole = gathers(trigger) or not trigger.workflow
        return c.Delivered(id=one.id, key=mapped.key, inputs=item if whole else mapped.inputs)
