"""read_events: in order, in pages, of one run."""

from perdure.journal import Accepted, Conflict
from tests.conformance.journal.commits import append, commit, event


async def test_pages_join_to_the_whole(journal):
    await append(journal, commit("r1", 0, 25), commit("r2", 0, 3))
    pages, after = [], 0
    while page := await journal.read_events("r1", after, 10):
        pages.append([event.seq for event in page])
        after = page[-1].seq
    assert pages == [list(range(1, 11)), list(range(11, 21)), list(range(21, 26))]


async def test_after_the_end_there_is_nothing(journal):
    await append(journal, commit("r1", 0, 2))
    assert await journal.read_events("r1", 2) == []
    assert await journal.read_events("r1", 0, 0) == []


async def test_an_event_that_was_read_never_changes(journal):
    """J3: whoever writes another one at its number is refused, and what is written later comes after it."""
    await append(journal, commit("r1", 0, 3))
    read = await journal.read_events("r1")
    rival = commit("r1", 1, commit_id="rival", events=(event(2, b'{"seq":2,"by":"a rival"}'),))
    assert isinstance(await append(journal, rival), Conflict)
    assert isinstance(await append(journal, commit("r1", 3, 2)), Accepted)
    assert (await journal.read_events("r1"))[:3] == read


async def test_a_run_that_does_not_exist_has_no_events(journal):
    assert await journal.read_events("nobody") == []
