"""Whether a source keeps its promises, tried: it is killed between any two calls, and answers get lost.

The source is read to its end once, undisturbed. Then it is read again for every poll, and the process dies there: before
what the poll gave is durable, so that the next one asks from the cursor before; or after, so that a new one goes on. Each
time exactly the same items must come, in the same order.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from perdure.sources import MOST_ITEMS, Item, Polled, Source

LONGEST_ID = 500
_MOST_POLLS = 1000
_QUIET = 2
"""After how many polls in a row without an item a source is read to its end."""


_FAULTS = {
    "again": "its answer was lost, and it was asked again",
    "lost": "it was killed before its answer was durable",
    "killed": "it was killed after its answer was durable",
}


class SourceBroken(AssertionError):
    """What a source did that would lose or repeat items."""


Make = Callable[[], Source | Awaitable[Source]]


async def check_source(
    make: Make, *, cursor: str | None = None, between: Callable[[], Any] | None = None, most: int = _MOST_POLLS
) -> tuple[Item, ...]:
    """Read what a source gives after the cursor, with every kind of interruption, and return the items. `make` gives a
    new source as a new process would; `between` is called between polls, to move a clock. Raises SourceBroken."""
    whole, polls = await _read(make, cursor, between, most, lambda number: "")
    ids = [item.id for item in whole]
    repeated = next((id for number, id in enumerate(ids) if id in ids[:number]), None) if len(ids) < 2000 else None
    if repeated is not None or len(set(ids)) != len(ids):
        raise SourceBroken(f"one reading gave an item twice: {repeated!r}")
    for fault, what in _FAULTS.items():
        for place in range(polls):

            def fails(number: int, place: int = place, fault: str = fault) -> str:
                return fault if number == place else ""

            _compare(whole, (await _read(make, cursor, between, most, fails))[0], f"at poll {place + 1}, {what}")
    every = await _read(make, cursor, between, most, lambda number: "killed" if number % 2 == 0 else "lost")
    _compare(whole, every[0], "it was killed at every poll")
    return tuple(whole)


async def _read(
    make: Make, cursor: str | None, between: Callable[[], Any] | None, most: int, fails: Callable[[int], str]
) -> tuple[list[Item], int]:
    """All items that became durable, and how many polls it took."""
    found: list[Item] = []
    source = await _settled(make())
    quiet = number = 0
    lost: set[int] = set()
    while True:
        if number >= most:
            raise SourceBroken(f"there is no end to it after {most} polls; items without end cannot be checked")
        polled = _check(await _settled(source.poll(cursor)), cursor)
        fault = fails(number)
        if fault in ("lost", "again") and number not in lost:
            # Nothing is durable: the same cursor is asked for again, of a new process where this one died.
            lost.add(number)
            if fault == "lost":
                source = await _settled(make())
            if between is not None:
                await _settled(between())
            continue
        number += 1
        found += polled.items
        cursor = polled.cursor
        if fault == "killed":
            source = await _settled(make())
        if polled.end:
            break
        quiet = 0 if polled.items or polled.more else quiet + 1
        if quiet > _QUIET:
            break
        if between is not None:
            await _settled(between())
    await _settled(source.close())
    return found, number


def _check(polled: Any, cursor: str | None) -> Polled:
    if not isinstance(polled, Polled):
        raise SourceBroken(f"poll must return Polled, got {type(polled).__name__}")
    reached: Any = polled.cursor
    if not isinstance(reached, str):
        raise SourceBroken(f"a cursor is text, got {type(reached).__name__}")
    if len(polled.items) > MOST_ITEMS:
        raise SourceBroken(f"a poll gives at most {MOST_ITEMS} items, got {len(polled.items)}; say more=True")
    if polled.items and polled.cursor == cursor:
        raise SourceBroken("a poll gave items and the cursor it was asked with: they would come for ever")
    for item in polled.items:
        name: Any = item.id
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_ID:
            raise SourceBroken(f"an id is text of 1 to {LONGEST_ID} characters, got {name!r:.80}")
        try:
            msgspec.json.encode(item.data)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise SourceBroken(f"the data of item {item.id!r:.80} is not JSON: {error}") from None
    return polled


def _compare(expected: list[Item], found: list[Item], when: str) -> None:
    if found == expected:
        return
    lost = [item.id for item in expected if item not in found]
    extra = [item.id for item in found if found.count(item) > 1 or item not in expected]
    if lost:
        raise SourceBroken(f"{when}: {len(lost)} items were lost, first {lost[0]!r:.80}")
    if extra:
        raise SourceBroken(f"{when}: {len(extra)} items came again or changed, first {extra[0]!r:.80}")
    raise SourceBroken(f"{when}: the items came in another order")


async def _settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
