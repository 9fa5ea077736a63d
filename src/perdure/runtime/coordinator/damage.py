"""Appends however long the journal is away, and to a database that is damaged in some place: the runs that are not
stored there go on.

A transaction that touches a damaged page fails as a whole, however often it is tried. So each run is appended by itself,
and one whose snapshot cannot be replaced goes on without a new one: its events decide.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import msgspec

from perdure.clock import Clock
from perdure.journal import Appended, Commit, Journal, JournalCorrupt, JournalUnavailable, OutcomeUnknown

logger = logging.getLogger("perdure.coordinator")


class Damaged(Exception):
    """What is stored of a run cannot be written to any more."""


async def append(
    journal: Journal, clock: Clock, commits: list[Commit], *, is_stopping: Callable[[], bool]
) -> Sequence[Appended | Damaged]:
    """Append, however long the journal is away: meanwhile runs stand still, and nothing is lost or decided anew."""
    delay = 0.05
    damaged = False
    while True:
        try:
            return await (_append_each(journal, commits) if damaged else journal.append(commits))
        except (JournalUnavailable, OutcomeUnknown) as error:
            # The same commits again: the journal recognises one that was written after all by its id (J7).
            if is_stopping():
                raise
            if isinstance(error, JournalCorrupt) and not damaged:  # some of them may be written nevertheless
                damaged = True
                continue
            logger.warning("the journal cannot be written: %s; trying again in %.2f s", error, delay)
            await clock.sleep(delay)
            delay = min(delay * 2, 2.0)


async def _append_each(journal: Journal, commits: Sequence[Commit]) -> list[Appended | Damaged]:
    """The outcome of each commit. Raises what the journal raises if it is not damaged in these places alone."""
    await journal.incarnation()  # raises where nothing can be read: then no run is to blame
    return [await _append(journal, commit) for commit in commits]


async def _append(journal: Journal, commit: Commit) -> Appended | Damaged:
    try:
        return (await journal.append([commit]))[0]
    except JournalCorrupt as error:
        if commit.snapshot is None:
            return Damaged(str(error))
    try:
        return (await journal.append([msgspec.structs.replace(commit, snapshot=None)]))[0]
    except JournalCorrupt as error:
        return Damaged(str(error))
