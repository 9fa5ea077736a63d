"""Lookups that are asked for at the same time are made in one visit to a reading thread."""

from __future__ import annotations

import asyncio
from typing import Any

from perdure.journals.sqlite import SqliteJournal
from tests.conformance.journal.commits import append, commit

RUNS = 40


async def test_lookups_at_the_same_time_share_a_visit_and_each_has_its_own_answer(tmp_path):
    journal = await SqliteJournal.open(tmp_path / "perdure.db")
    try:
        await append(journal, *(commit(f"r{number}") for number in range(RUNS)))
        visits, run = 0, journal._readers.run

        async def visit(work: Any) -> Any:
            nonlocal visits
            visits += 1
            return await run(work)

        journal._readers.run = visit  # type: ignore[method-assign]
        names = [f"r{number}" for number in range(RUNS)]
        found = await asyncio.gather(*map(journal.find_run, [*names, "unknown"]))
        assert [None if one is None else one.run_id for one in found] == [*names, None]
        events = await asyncio.gather(*map(journal.read_events, [*names, "unknown"]))
        assert [len(one) for one in events] == [1] * RUNS + [0]
        assert await asyncio.gather(*map(journal.find_snapshot, names)) == [None] * RUNS
        assert visits <= 6, "two of each kind may be under way"
    finally:
        await journal.close()


async def test_pages_of_one_run_that_are_asked_for_together_stay_apart(tmp_path):
    journal = await SqliteJournal.open(tmp_path / "perdure.db")
    try:
        await append(journal, commit("r", count=5))
        pages = await asyncio.gather(
            journal.read_events("r", 0, 2), journal.read_events("r", 2, 2), journal.read_events("r", 0, 9)
        )
        assert [[event.seq for event in page] for page in pages] == [[1, 2], [3, 4], [1, 2, 3, 4, 5]]
    finally:
        await journal.close()
