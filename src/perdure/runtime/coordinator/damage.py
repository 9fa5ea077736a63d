"""Appends to a database that is damaged in some place: the runs that are not stored there go on.

A transaction that touches a damaged page fails as a whole, however often it is tried. So each run is appended by itself,
and one whose snapshot cannot be replaced goes on without a new one: its events decide.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.journal import Appended, Commit, Journal, JournalCorrupt


class Damaged(Exception):
    """What is stored of a run cannot be written to any more."""


async def append_each(journal: Journal, commits: Sequence[Commit]) -> list[Appended | Damaged]:
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
