"""mark_quarantined, unquarantine: a mark on the run row, no more."""

import pytest

from perdure.errors import NotFound
from perdure.journal import Accepted
from tests.conformance.journal.commits import append, commit


async def test_the_mark_says_why_and_can_be_taken_away(journal):
    await append(journal, commit("r1"))
    await journal.mark_quarantined("r1", "event 3 is unknown")
    assert (await journal.get_run("r1")).quarantined == "event 3 is unknown"
    await journal.unquarantine("r1")
    assert (await journal.get_run("r1")).quarantined is None


async def test_the_mark_changes_neither_row_nor_sequence(journal):
    await append(journal, commit("r1"))
    before = await journal.get_run("r1")
    await journal.mark_quarantined("r1", "why")
    after = await journal.get_run("r1")
    assert (after.row, after.seq, after.commit_id) == (before.row, before.seq, before.commit_id)


async def test_an_append_is_still_guarded_by_the_sequence_alone_and_keeps_the_mark(journal):
    await append(journal, commit("r1"))
    await journal.mark_quarantined("r1", "why")
    assert await append(journal, commit("r1", 1, state="cancelled", ended_at=1.0)) == Accepted(2)
    assert (await journal.get_run("r1")).quarantined == "why"


async def test_a_run_that_does_not_exist_cannot_be_marked(journal):
    with pytest.raises(NotFound):
        await journal.mark_quarantined("nobody", "why")
    with pytest.raises(NotFound):
        await journal.unquarantine("nobody")
