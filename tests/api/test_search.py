"""Search, and figures of workflows: what is found is the caller's own, and the figures are those of the runs."""

import pytest

from perdure.service import scans
from perdure.service.workflows import workflow_stats
from tests.api.helpers import bearer, serving
from tests.api.test_people import asking, pending
from tests.engine.helpers import task, transform, workflow


@pytest.fixture
async def server(tmp_path):
    async with serving(tmp_path, tokens=True) as made:
        yield made


async def found(server, text, headers=None, **more):
    answer = await server.ok("/search", params={"q": text, **more}, headers=headers or bearer())
    return {
        "runs": [one["run_id"] for one in answer["runs"]],
        "workflows": [one["name"] for one in answer["workflows"]],
        "approvals": [one["approval_id"] for one in answer["approvals"]],
    }


async def test_runs_workflows_and_approvals_are_found_by_their_names(server):
    for name in ("orders", "old-Orders", "billing"):
        await server.ok("/workflows", workflow(transform("a", 1), name=name), headers=bearer())
    run = (await server.start({**asking(approvers=["bob"]), "name": "pay"}, wait=0, headers=bearer("eve")))["run_id"]
    approval = (await pending(server, run))["approval_id"]
    nothing: dict[str, list[str]] = {"runs": [], "workflows": [], "approvals": []}
    assert await found(server, "ORDERS") == {**nothing, "workflows": ["old-Orders", "orders"]}
    assert await found(server, "orders", limit=1) == {**nothing, "workflows": ["old-Orders"]}
    assert await found(server, run) == {**nothing, "runs": [run], "approvals": [approval]}
    assert await found(server, run[:3]) == {**nothing, "approvals": [approval]}
    for text in ("pay", "bob", "ask"):
        assert (await found(server, text))["approvals"] == [approval], text
    assert await found(server, "nowhere") == nothing
    assert await found(server, "  ") == nothing
    assert await found(server, run, bearer("mallory", tenant="other")) == nothing
    assert await found(server, "orders", bearer("mallory", tenant="other")) == nothing


@pytest.mark.parametrize("query", ["", "?q=x&limit=0", "?q=x&limit=1000", f"?q={'x' * 300}", "?q=x&kind=run"])
async def test_a_search_that_means_nothing_is_refused(server, query):
    assert (await server.get(f"/search{query}", headers=bearer())).status_code == 400


async def test_workflows_by_a_part_of_their_name_go_on_where_a_page_stopped(server, monkeypatch):
    for number in range(5):
        await server.ok("/workflows", workflow(transform("a", 1), name=f"w{number}"), headers=bearer())
    monkeypatch.setattr(scans, "LOOKS", 1)
    monkeypatch.setattr(scans, "AT_ONCE", 2)
    names: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = await server.ok(f"/workflows?q=W3&limit=5{cursor}", headers=bearer())
        names += [one["name"] for one in page["items"]]
        cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
    assert names == ["w3"]


async def test_figures_of_a_workflow_are_those_of_its_runs(server, monkeypatch):
    broken = workflow(task("a", "fail", args={}, retry={"max_attempts": 1}), name="orders")
    await server.ok("/workflows", workflow(transform("a", 1), name="orders"), headers=bearer())
    for _ in range(3):
        await server.ok("/runs", {"workflow": "orders", "wait_seconds": 60}, headers=bearer())
    await server.ok("/workflows", broken, headers=bearer())
    last = await server.ok("/runs", {"workflow": "orders", "wait_seconds": 60}, headers=bearer())
    stats = await server.ok("/workflows/orders/stats", headers=bearer())
    assert (stats["workflow"], stats["since"], stats["capped"]) == ("orders", None, False)
    assert [
        (one["version"], one["started"], one["completed"], one["failed"], one["open"]) for one in stats["versions"]
    ] == [
        (2, 1, 0, 1, 0),
        (1, 3, 3, 0, 0),
    ]
    assert all(0 <= one["p50_seconds"] <= one["p95_seconds"] for one in stats["versions"])
    begun = (await server.ok(f"/runs/{last['run_id']}", headers=bearer()))["created_at"]
    since = await server.ok(f"/workflows/orders/stats?since={begun}", headers=bearer())
    assert [one["version"] for one in since["versions"]] == [2]
    assert (await server.get("/workflows/nowhere/stats", headers=bearer())).status_code == 404
    assert (await server.get("/workflows/orders/stats", headers=bearer("eve", tenant="other"))).status_code == 404
    monkeypatch.setattr(workflow_stats, "MOST_RUNS", 2)
    capped = await server.ok("/workflows/orders/stats", headers=bearer())
    assert (capped["capped"], sum(one["started"] for one in capped["versions"])) == (True, 2)


@pytest.mark.parametrize(
    ("took", "half", "most"),
    [([], None, None), ([1.0], 1.0, 1.0), ([1.0, 2.0], 1.0, 2.0), ([float(n) for n in range(1, 101)], 50.0, 95.0)],
)
def test_half_of_the_runs_took_no_longer(took, half, most):
    assert (workflow_stats.share_of(took, 0.5), workflow_stats.share_of(took, 0.95)) == (half, most)
