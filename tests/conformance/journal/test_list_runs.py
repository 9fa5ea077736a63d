"""list_runs, count_runs: filters, order, pages, counts."""

from typing import Any

import pytest

from perdure.journal import InvalidCursor, RunFilter
from tests.conformance.journal.commits import append, commit


async def ids(journal, **where):
    return [run.run_id for run in (await journal.list_runs(RunFilter(**where))).items]


TIMED_OUT = b'{"code":"timeout","message":"30 s"}'


@pytest.fixture
async def runs(journal):
    await append(
        journal,
        commit("a", created_at=10.0, workflow="orders", tags=b'{"team":"x","tier":"1"}'),
        commit("b", created_at=20.0, workflow="billing", state="failed", ended_at=21.0, error=TIMED_OUT),
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
    ({"version": 0, "workflow": "orders"}, "dca"),
    ({"version": 1}, ""),
    ({"error": "timeout"}, "b"),
    ({"error": "timeout", "tenant": "default", "states": ("failed",)}, "b"),
    ({"error": "time"}, ""),
    ({"error": 'timeout","message":"30 s'}, ""),
    ({"id_prefix": "a"}, "a"),
    ({"id_prefix": "a", "tenant": "default"}, "a"),
    ({"id_prefix": "a", "tenant": "acme"}, ""),
    ({"id_prefix": "d", "tag": ("team", "y")}, "d"),
    ({"id_prefix": "dd"}, ""),
    ({"by_end": True}, "b"),
    ({"by_end": True, "tenant": "acme"}, ""),
    ({"by_end": True, "ended_since": 21.0, "ended_until": 22.0, "tenant": "default"}, "b"),
    ({"by_end": True, "ended_until": 21.0}, ""),
    ({"by_end": True, "tag": ("team", "x")}, ""),
    ({"by_end": True, "workflow": "billing", "states": ("failed",), "top": True, "since": 20.0}, "b"),
    ({"oldest": True}, "abcd"),
    ({"oldest": True, "tag": ("team", "x")}, "ac"),
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


async def test_runs_by_their_end_stand_in_that_order(journal):
    for number, ended_at in enumerate((30.0, 10.0, None, 20.0)):
        await append(journal, commit(f"r{number}", created_at=float(number), state="failed", ended_at=ended_at))
    assert await ids(journal, by_end=True) == ["r0", "r3", "r1"]
    assert await ids(journal, by_end=True, oldest=True) == ["r1", "r3", "r0"]
    first = await journal.list_runs(RunFilter(by_end=True), limit=2)
    rest = await journal.list_runs(RunFilter(by_end=True), cursor=first.next_cursor)
    assert [one.run_id for one in (*first.items, *rest.items)] == ["r0", "r3", "r1"]


COUNTS: list[tuple[dict[str, Any], dict[str, Any], set[tuple[Any, ...]]]] = [
    ({}, {}, {(None, None, 4)}),
    ({"tenant": "default"}, {"group": "state"}, {("running", None, 1), ("failed", None, 2)}),
    ({}, {"group": "workflow"}, {("orders", None, 3), ("billing", None, 1)}),
    ({"states": ("failed",)}, {"group": "error"}, {("timeout", None, 1), (None, None, 1)}),
    ({"states": ("failed", "paused")}, {}, {(None, None, 3)}),
    ({}, {"bucket": 20.0}, {(None, 0, 1), (None, 1, 2), (None, 2, 1)}),
    (
        {"workflow": "orders"},
        {"bucket": 20.0, "group": "state"},
        {("running", 0, 1), ("failed", 1, 1), ("paused", 2, 1)},
    ),
    ({"by_end": True}, {"bucket": 7.0}, {(None, 3, 1)}),
    ({"by_end": True, "ended_since": 22.0}, {}, set()),
    ({"tag": ("team", "x"), "top": True}, {}, {(None, None, 1)}),
    ({"parent": "a"}, {}, {(None, None, 1)}),
    ({"quarantined": True}, {}, set()),
    ({"error": "timeout", "version": 0, "id_prefix": "b"}, {}, {(None, None, 1)}),
    ({}, {"limit": 2, "group": "workflow"}, {("orders", None, 2)}),
]


async def test_runs_are_counted_by_group_and_time(journal, runs):
    for where, asked, expected in COUNTS:
        found = await journal.count_runs(RunFilter(**where), **asked)
        assert {(one.group, one.bucket, one.count) for one in found if one.count} == expected, (where, asked)


@pytest.mark.parametrize(
    "where",
    [
        RunFilter(),
        RunFilter(tag=("k", "v")),
        RunFilter(workflow="orders"),
        RunFilter(oldest=True),
        RunFilter(by_end=True),
    ],
)
async def test_pages_join_to_the_whole_even_when_runs_share_a_moment(journal, where):
    for number in range(25):
        at = float(number // 10)
        await append(journal, commit(f"r{number:02}", created_at=at, ended_at=at, tags=b'{"k":"v"}'))
    found, cursor, sizes = [], None, []
    while True:
        page = await journal.list_runs(where, limit=10, cursor=cursor)
        sizes.append(len(page.items))
        found += [run.run_id for run in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert sizes == [10, 10, 5]
    newest = [f"r{number:02}" for number in reversed(range(25))]
    assert found == (newest[::-1] if where.oldest else newest)


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
