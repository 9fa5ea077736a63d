"""Windows: items of one key that come soon after each other are put together, and one run is started for all of them (rule 46)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

import msgspec

from perdure.kernel.triggers.mailbox import Item, Mailbox, Window

MOST_WINDOWS = 10_000
"""The most windows that are open. One more closes the oldest."""


def is_closed(box: Mailbox, number: int, at: float) -> bool:
    """Whether a window takes no more items, and may start its run."""
    return bool(_choose_closed(box, {number: box.windows[number]}, at)) or number == _find_excess(box)


def find_closed(box: Mailbox, at: float) -> list[int]:
    """The windows that are closed."""
    found = _choose_closed(box, box.windows, at)
    excess = _find_excess(box)
    return found if excess is None or excess in found else [*found, excess]


def _choose_closed(box: Mailbox, windows: Mapping[int, Window], at: float) -> list[int]:
    how, newest = box.policy.window, box.newest
    if how is None:
        return list(windows)
    items, within, quiet = how.items, how.within, how.quiet or inf
    return [  # written out, because there may be thousands: a call for each would cost the most
        number
        for number, window in windows.items()
        if window.first + within <= at
        or window.last + quiet <= at
        or newest.get(window.key) != number
        or len(window.numbers) >= items
    ]


def _find_excess(box: Mailbox) -> int | None:
    """The oldest window, if there are too many."""
    return min(box.windows) if len(box.windows) > MOST_WINDOWS else None


def next_close(box: Mailbox, at: float) -> float | None:
    """When the first of the windows that are open closes, if no other item comes."""
    how = box.policy.window
    if how is None or not box.newest:
        return None
    within, quiet = how.within, how.quiet or inf
    closes = (
        min(window.first + within, window.last + quiet) for window in map(box.windows.__getitem__, box.newest.values())
    )
    return min((one for one in closes if one > at), default=None)


def assign(box: Mailbox, items: Sequence[Item], at: float) -> list[Item]:
    """The items, each with the window it goes into: that of its key, or a new one."""
    how = box.policy.window
    if how is None:
        return list(items)
    open_now: dict[str, tuple[int, int]] = {}
    found = []
    for item in items:
        number, count = open_now.get(item.key) or _look_for_open(box, item.key, at)
        if not number or count >= how.items:
            number, count = item.number, 0
        open_now[item.key] = (number, count + 1 if how.keep == "all" else 1)
        found.append(msgspec.structs.replace(item, window=number))
    return found


def _look_for_open(box: Mailbox, key: str, at: float) -> tuple[int, int]:
    number = box.newest.get(key, 0)
    if not number or is_closed(box, number, at):
        return 0, 0
    return number, len(box.windows[number].numbers)


def find_replaced(box: Mailbox, items: Sequence[Item]) -> tuple[int, ...]:
    """The items whose place newer ones of their window take, where only the last is kept."""
    how = box.policy.window
    if how is None or how.keep == "all":
        return ()
    touched = {item.window for item in items if item.window}
    return tuple(sorted(number for window in touched for number in box.windows[window].numbers[:-1]))
