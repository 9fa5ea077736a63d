"""Runs in lists and counts over HTTP: each condition finds what it says, and nothing of another tenant."""

import pytest

from perdure.service import scans
from perdure.service.runs import run_lists
from tests.api.helpers import bearer, serving
from tests.engine.helpers import transform, workflow

FINE = workflow(transform("a", 1), name="fine")
BROKEN = workflow(transform("a", "{{ inputs.no.such }}"), name="broken")


@pytest.fixture
async def server(tmp_path):
    async with serving(tmp_path, tokens=True) as made:
        yield made


@pytest.fixture
async def runs(server):
    """The ids of five runs, oldest first: three of ann, one of bob, one of another tenant."""
    ann, bob, eve = bearer("ann"), bearer("bob"), bearer("eve", tenant="other")
    started = [
        await server.start(FINE, headers=ann, tags={"team": "x", "tier": "1"}),
        await server.start(BROKEN, headers=ann, tags={"team": "x", "tier": "2"}),
        await server.start(FINE, headers=bob, tags={"team": "x"}),
        await server.start(FINE, headers=ann),
        await server.start(FINE, headers=eve),
    ]
    return [one["run_id"] for one in started]


async def ids(server, runs, query, headers=None):
    page = await server.ok(f"/runs?{query}", headers=headers or bearer())
    return [runs.index(one["run_id"]) for one in page["items"]]


async def test_each_condition_of_a_list_holds(server, runs):
    summary = await server.ok(f"/runs?id={runs[1]}", headers=bearer())
    (broken,) = summary["items"]
    code = broken["error"]["code"]
    assert (broken["submitted_by"], broken["origin"]) == ("ann", None)
    assert broken["seq"] >= 3
    assert [
        await ids(server, runs, query)
        for query in (
            "",
            "order=oldest",
            "order=ended",
            "by=ann",
            "by=eve",
            f"error={code}",
            "error=none",
            "version=0",
            "version=1",
            "root=true",
            "tag=team%3Dx&tag=tier%3D2",
            "tag=team%3Dx&by=bob",
            f"id={runs[2][:31]}",
            f"id={runs[4]}",
            f"ended_since={broken['ended_at']}&order=oldest",
            f"ended_until={broken['ended_at']}",
            "by=ann&limit=1",
        )
    ] == [
        [3, 2, 1, 0],
        [0, 1, 2, 3],
        [3, 2, 1, 0],
        [3, 1, 0],
        [],
        [1],
        [],
        [3, 2, 1, 0],
        [],
        [3, 2, 1, 0],
        [1],
        [2],
        [one for one in (3, 2, 1, 0) if runs[one].startswith(runs[2][:31])],
        [],
        [1, 2, 3],
        [0],
        [3],
    ]


async def test_a_page_looks_at_so_many_runs_and_goes_on_where_it_stopped(server, runs, monkeypatch):
    monkeypatch.setattr(scans, "LOOKS", 1)
    monkeypatch.setattr(scans, "AT_ONCE", 2)
    found: list[int] = []
    sizes: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        page = await server.ok(f"/runs?by=bob&limit=5{cursor}", headers=bearer())
        sizes.append(len(page["items"]))
        found += [runs.index(one["run_id"]) for one in page["items"]]
        cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
    assert (found, sizes) == ([2], [1, 0])


@pytest.mark.parametrize(
    "query", ["id=abc", "root=true&children=true", "order=first", "version=-1", "tag=x", "bucket=5"]
)
async def test_conditions_that_mean_nothing_are_refused(server, query):
    response = await server.get(f"/runs?{query}", headers=bearer())
    assert response.status_code in (400, 422), response.text


async def test_runs_are_counted_by_group_and_by_time(server, runs):
    counts = await server.ok("/runs/counts?group=workflow", headers=bearer())
    groups = [{"name": "fine", "count": 3}, {"name": "broken", "count": 1}]
    assert counts == {"total": 4, "capped": False, "groups": groups}
    assert (await server.ok("/runs/counts?by=ann&group=state", headers=bearer()))["groups"] == [
        {"name": "completed", "count": 2},
        {"name": "failed", "count": 1},
    ]
    (first,) = (await server.ok(f"/runs?id={runs[0]}", headers=bearer()))["items"]
    for kind in ("since", "ended_since"):
        timed = await server.ok(f"/runs/counts?{kind}={first['created_at']}&bucket=100000", headers=bearer())
        assert sum(one["count"] for one in timed["buckets"]) == timed["total"] == 4
        assert all(one["at"] % 100000 == 0 for one in timed["buckets"])
    assert (await server.ok("/runs/counts", headers=bearer("eve", tenant="other")))["total"] == 1


async def test_a_count_says_when_there_are_more(server, runs, monkeypatch):
    monkeypatch.setattr(run_lists, "MOST_COUNTED", 2)
    assert await server.ok("/runs/counts", headers=bearer()) == {"total": 2, "capped": True}
    assert (await server.ok("/runs/counts?since=2020-01-01T00:00:00Z", headers=bearer()))["capped"]
    (first,) = (await server.ok(f"/runs?id={runs[0]}", headers=bearer()))["items"]
    assert await server.ok(f"/runs/counts?since={first['created_at']}", headers=bearer()) == {
        "total": 4,
        "capped": False,
    }


@pytest.mark.parametrize("query", ["bucket=60", "bucket=1&since=0", "state=waiting", "group=tenant", "order=oldest"])
async def test_counts_that_cannot_be_are_refused(server, query):
    response = await server.get(f"/runs/counts?{query}", headers=bearer())
    assert response.status_code in (400, 422), response.text


async def test_a_list_that_is_as_it_was_is_not_sent_again(server, runs):
    for path in ("/runs", "/runs/counts?group=state", "/workflows"):
        first = await server.get(path, headers=bearer())
        etag = first.headers["etag"]
        for given in (etag, etag.removeprefix("W/"), f'"x", {etag}'):
            again = await server.get(path, headers={**bearer(), "If-None-Match": given})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
        assert (await server.get(path, headers={**bearer(), "If-None-Match": '"x"'})).json() == first.json()
    before = await server.get("/runs", headers=bearer())
    await server.start(FINE, headers=bearer())
    after = await server.get("/runs", headers={**bearer(), "If-None-Match": before.headers["etag"]})
    assert (after.status_code, len(after.json()["items"])) == (200, 5)
    assert (await server.get("/runs", headers={"If-None-Match": before.headers["etag"]})).status_code == 401


async def test_many_runs_are_counted_then_changed_if_the_count_is_still_right(server, runs):
    waits = workflow({"id": "w", "type": "wait", "config": {"signal": "go"}}, name="waits")
    ann, eve = bearer("ann"), bearer("eve", tenant="other")
    waiting = [(await server.start(waits, wait=0, headers=ann))["run_id"] for _ in range(3)]
    theirs = (await server.start(waits, wait=0, headers=eve))["run_id"]
    asked = {"action": "cancel", "where": {"workflow": "waits", "state": ["running"], "by": "ann"}}
    counted = {"matched": 3, "done": 0, "refused": []}
    assert await server.ok("/runs/bulk", asked, headers=ann) == counted
    wrong = await server.post("/runs/bulk", {**asked, "expected": 2}, headers=ann)
    assert (wrong.status_code, (await server.ok("/runs/bulk", asked, headers=ann))) == (409, counted)
    done = await server.ok("/runs/bulk", {**asked, "expected": 3, "reason": "stocktaking"}, headers=ann)
    assert done == {"matched": 3, "done": 3, "refused": []}
    assert (await server.ok("/runs/bulk", asked, headers=ann))["matched"] == 0
    assert (await server.ok(f"/runs/{theirs}", headers=eve))["state"] == "running"
    named = {"action": "pause", "run_ids": [waiting[0], waiting[0], theirs, "nowhere", runs[0]], "expected": 2}
    told = await server.ok("/runs/bulk", named, headers=ann)
    assert (told["matched"], told["done"]) == (2, 0)
    assert {one["run_id"] for one in told["refused"]} == {waiting[0], runs[0]}
    audit = (await server.ok("/audit?action=runs.bulk", headers=ann))["items"]
    assert len(audit) == 5


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"action": "delete"},
        {"action": "cancel", "where": {"state": ["waiting"]}},
        {"action": "cancel", "where": {"x": 1}},
    ],
)
async def test_a_change_of_many_that_means_nothing_is_refused(server, body):
    assert (await server.post("/runs/bulk", body, headers=bearer())).status_code in (400, 422)
    assert (await server.post("/runs/bulk", {"action": "cancel"}, headers=bearer("v", "viewer"))).status_code == 403
