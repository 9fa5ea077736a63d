"""How everything stands: what needs a person now, the figures of runs, and the newest, each for who may read it."""

from itertools import pairwise

import pytest

from perdure.access import Authenticator, issue_key
from perdure.service import overview
from perdure.service.overview import BUCKETS, Overviews
from perdure.service.tenancy import archive_of
from tests.api.helpers import bearer, serving
from tests.api.test_people import asking, pending
from tests.attack.marks import attack
from tests.engine.helpers import task, transform, workflow


@pytest.fixture
async def server(tmp_path, monkeypatch):
    monkeypatch.setattr(Overviews, "KEPT_SECONDS", 0.0)
    async with serving(tmp_path, tokens=True) as made:
        yield made


async def look(server, who="ann", span="24h", **more):
    return await server.ok("/overview", params={"span": span}, headers=bearer(who, **more))


def failing(name, **more):
    return workflow({**task("charge", "fail"), "retry": 1, **more}, name=name)


async def test_what_needs_a_person_is_told_and_nothing_of_another_tenant(server):
    nothing = await look(server)
    assert [nothing[name]["total"] for name in ("approvals", "dead_letters", "failed", "paused", "deadlines")] == [
        0
    ] * 5
    for _ in range(2):
        await server.start(failing("pay"), wait=30, headers=bearer())
    await server.start(failing("mend", on_failure="park"), wait=0, headers=bearer())
    await server.start(workflow(transform("a", 1), name="fine"), wait=30, headers=bearer())
    asked = {**asking(approvers=["bob"]), "name": "asks"}
    run = (await server.start(asked, wait=0, deadline_seconds=1800, headers=bearer("eve")))["run_id"]
    await pending(server, run)
    later = (await server.start(asked, wait=0, deadline_seconds=7200, headers=bearer("eve")))["run_id"]
    await server.ok(f"/runs/{later}/pause", {"reason": "stocktaking"}, headers=bearer())
    found = await look(server)
    while found["dead_letters"]["total"] == 0:
        found = await look(server)
    assert found["failed"] == {"total": 2, "capped": False, "groups": [{"workflow": "pay", "count": 2}]}
    assert [(one["workflow"], one["count"]) for one in found["dead_letters"]["groups"]] == [("mend", 1)]
    assert found["paused"]["groups"] == [{"workflow": "asks", "count": 1}]
    assert [(one["run_id"], one["workflow"]) for one in found["deadlines"]["items"]] == [(run, "asks")]
    assert found["approvals"]["total"] == 0  # bob is asked, and not ann
    mine = (await look(server, "bob"))["approvals"]
    assert run in [one["run_id"] for one in mine["items"]]
    assert found["failing"] == [{"workflow": "pay", "failed": 2, "ended": 2}]
    assert {one["workflow"] for one in found["slowest"]} == {"pay", "fine"}
    assert len(found["newest"]) == 6
    assert (await look(server, "mallory", tenant="other"))["newest"] == []
    assert (await look(server, "mallory", tenant="other"))["deadlines"]["total"] == 0


@attack("X18", "timers of another tenant, as many as are looked through")
async def test_deadlines_are_not_hidden_by_timers_of_another_tenant(server, monkeypatch):
    monkeypatch.setattr(overview, "MOST_LOOKED_AT", 3)
    run = (await server.start(asking(approvers=["bob"]), wait=0, deadline_seconds=1800, headers=bearer()))["run_id"]
    await pending(server, run)
    for _ in range(3):
        theirs = bearer("mallory", tenant="other")
        await server.start(
            workflow({"id": "w", "type": "wait", "config": {"seconds": 900}}),
            wait=0,
            deadline_seconds=1000,
            headers=theirs,
        )
    found = (await look(server))["deadlines"]
    assert ([one["run_id"] for one in found["items"]], found["capped"]) == ([run], False)


@pytest.mark.parametrize("span", BUCKETS)
async def test_every_stretch_of_a_span_is_there_and_counts_what_happened_in_it(server, span):
    await server.start(failing("pay"), wait=30, headers=bearer())
    await server.start(workflow(transform("a", 1), name="fine"), wait=30, headers=bearer())
    stretches = (await look(server, span=span))["buckets"]
    number, seconds = BUCKETS[span]
    assert {two["at"] - one["at"] for one, two in pairwise(stretches)} == {seconds}
    assert len(stretches) == number
    assert [sum(one[name] for one in stretches) for name in ("started", "ended", "failed")] == [2, 2, 1]


async def test_a_part_that_one_may_not_read_is_null(tmp_path):
    async with serving(tmp_path) as server:
        archive, clock = archive_of(server.engine), server.engine.clock
        server.app.state.site._authenticator = Authenticator(archive, clock, keys=True)

        async def seen_with(*scopes):
            made = await issue_key(archive, clock, tenant="acme", name="n", roles=("admin",), scopes=scopes, by="root")
            return await server.ok("/overview", headers={"Authorization": f"Bearer {made.text}"})

        found = await seen_with("system:read", "runs:read")
        assert (found["approvals"], found["dead_letters"], found["failed"]["total"]) == (None, None, 0)
        found = await seen_with("system:read")
        assert (found["failed"], found["newest"], found["buckets"]) == (None, [], [])


async def test_an_answer_is_kept_for_a_few_seconds_for_each_principal(server, monkeypatch):
    monkeypatch.setattr(Overviews, "KEPT_SECONDS", 3600.0)
    before = await look(server)
    await server.start(workflow(transform("a", 1), name="fine"), wait=30, headers=bearer())
    assert await look(server) == before
    assert len((await look(server, "bob"))["newest"]) == 1
    monkeypatch.setattr(Overviews, "KEPT_SECONDS", 0.0)
    assert len((await look(server))["newest"]) == 1
