"""list_runs: filters, order, pages."""

from typing import Any

import pytest

from perdure.journal import InvalidCursor, RunFilter
from tests.conformance.journal.commits import append, commit


async def ids(journal, **where):
    return [run.run_id for run in (await journal.list_runs(RunFilter(**where))).items]


@pytest.fixture
async def runs(journal):
    await append(
        journal,
        commit("a", created_at=10.0, workflow="orders", tags=b'{"team":"x","tier":"1"}'),
        commit("b", created_at=20.0, workflow="billing", state="failed", ended_at=21.0),
        commit("c", created_at=30.0, workflow="orders", state="failed", tags=b'{"team":"x"}', parent="a"),
        commit("d", created_at=40.0, workflow="orders", state="paused", tags=b'{"team":"y"}', tenant="acme", busy=True),
    )


async def test_an_empty_journal_lists_nothing(journal):
    page = await journal.list_runs()
    assert (page.items, page.next_cursor) == ((), None)


FILTERS: list[tuple[dict[str, Any], str]] = [
    ({}, "dcba"),
    ({"states": ("failed",)}, "cb"),
    ({"states": ("failed", "paused")}, "dcb"),
    ({"states": ("cancelled",)}, ""),
    ({"workflow": "orders"}, "dca"),
    ({"workflow": "orders", "states": ("failed",)}, "c"),
    ({"tag": ("team", "x")}, "ca"),
    ({"tag": ("team", "z")}, ""),
    ({"tag": ("tier", "1"), "workflow": "orders"}, "a"),
    ({"tag": ("team", "x"), "states": ("failed", "paused"), "since": 15.0}, "c"),
    ({"tag": ("team", "x"), "until": 30.0}, "a"),
    ({"tag": ("team", "y"), "tenant": "default"}, ""),
    ({"since": 20.0}, "dcb"),
    ({"until": 30.0}, "ba"),
    ({"since": 20.0, "until": 40.0}, "cb"),
    ({"tenant": "acme"}, "d"),
    ({"tenant": "default"}, "cba"),
    ({"parent": "a"}, "c"),
    ({"top": True}, "dba"),
    ({"top": True, "tag": ("team", "x")}, "a"),
    ({"may_wait": True}, "cba"),
    ({"may_wait": True, "tag": ("team", "y")}, ""),
    ({"quarantined": True}, ""),
    ({"quarantined": False}, "dcba"),
]


async def test_every_filter_that_is_given_must_hold(journal, runs):
    found = [(where, "".join(await ids(journal, **where))) for where, _ in FILTERS]
    assert found == FILTERS


async def test_quarantined_runs_can_be_listed(journal, runs):
    await journal.mark_quarantined("b", "corrupt")
    assert await ids(journal, quarantined=True) == ["b"]
    assert await ids(journal, quarantined=False) == ["d", "c", "a"]


async def test_the_list_follows_the_state(journal, runs):
    await append(journal, commit("a", 1, state="failed"))
    assert await ids(journal, states=("failed",)) == ["c", "b", "a"]


@pytest.mark.parametrize("where", [RunFilter(), RunFilter(tag=("k", "v")), RunFilter(workflow="orders")])
async def test_pages_join_to_the_whole_even_when_runs_share_a_moment(journal, where):
    for number in range(25):
        await append(journal, commit(f"r{number:02}", created_at=float(number // 10), tags=b'{"k":"v"}'))
    found, cursor, sizes = [], None, []
    while True:
        page = await journal.list_runs(where, limit=10, cursor=cursor)
        sizes.append(len(page.items))
        found += [run.run_id for run in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert sizes == [10, 10, 5]
    assert found == [f"r{number:02}" for number in reversed(range(25))]


async def test_a_full_last_page_has_no_cursor(journal, runs):
    assert (await journal.list_runs(limit=4)).next_cursor is None


async def test_a_run_made_meanwhile_does_not_shift_the_pages(journal, runs):
    page = await journal.list_runs(limit=2)
    await append(journal, commit("e", created_at=50.0))
    assert [run.run_id for run in (await journal.list_runs(limit=2, cursor=page.next_cursor)).items] == ["b", "a"]


async def test_a_cursor_that_was_not_given_out_is_refused(journal, runs):
    for cursor in ("", "nonsense", "W10", "WyJhIiwgMV0=", "ä", "AAAA"):
        with pytest.raises(InvalidCursor):
            await journal.list_runs(cursor=cursor)


async def test_a_run_with_open_children_may_wait_since_a_journal_does_not_know_what_they_do(journal):
    await append(
        journal,
        commit("parent", created_at=1.0, busy=True, tags=b'{"team":"x"}'),
        commit("child", created_at=2.0, parent="parent", busy=True),
        commit("done", created_at=3.0, busy=True),
        commit("ended", created_at=4.0, parent="done", state="failed", ended_at=5.0),
    )
    assert await ids(journal, may_wait=True) == ["ended", "parent"]
    assert await ids(journal, may_wait=True, tag=("team", "x")) == ["parent"]
