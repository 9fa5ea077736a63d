"""Runs of triggers that have ended, though their triggers have not heard of it: nobody drives them now, or it is on its way.

A run that ends leaves a notice for its trigger. Until that is taken in, the trigger counts the run as open; what people are shown is what
is so.
"""

from __future__ import annotations

from collections.abc import Iterable

from perdure.journal import Journal, TriggerRow, partition_of
from perdure.runtime.coordinator.triggers.firings import Ends, read_firing

_PAGE = 1000
_MOST_PAGES = 5
"""Where more notices wait, some of what has ended is shown as open."""


async def find_ended(journal: Journal, rows: Iterable[TriggerRow]) -> dict[str, set[str]]:
    """By trigger id, those of its open runs whose ends wait to be heard."""
    found: dict[str, set[str]] = {row.trigger_id: set() for row in rows if row.open}
    if not found:
        return {}
    places = {place for row in rows if row.open for place in (row.trigger_id, row.head)}
    partitions = {partition_of(place, journal.partition_count) for place in places}
    after = 0
    for _ in range(_MOST_PAGES):
        notices = await journal.read_notices(partitions, after, _PAGE)
        for notice in notices:
            after = notice.notice_id
            firing = read_firing(notice.body)
            trigger = firing.run_id.rpartition("~")[0] if isinstance(firing, Ends) else ""
            if isinstance(firing, Ends) and trigger in found:
                found[trigger].add(firing.run_id)
        if len(notices) < _PAGE:
            break
    return found
