"""Lists of what waits for people: found by workflow, node, error and time, and each says whether the caller may decide it."""

import pytest

from perdure.service import dead_letters, scans
from tests.api.helpers import bearer, serving
from tests.api.test_people import asking, decide, parked, pending, place
from tests.engine.helpers import transform, workflow


@pytest.fixture
async def server(tmp_path):
    async with serving(tmp_path, tokens=True) as made:
        yield made


async def ask(server, name="asking", by="starter", **config):
    definition = {**asking(**config), "name": name}
    run = await server.start(definition, wait=0, headers=bearer(by))
    return await pending(server, run["run_id"])


async def listed(server, query, headers):
    found = await server.ok(f"/approvals?{query}", headers=headers)
    return [one["approval_id"] for one in found["items"]]


async def test_each_approval_says_whether_the_caller_may_decide_it_and_why_not(server):
    anyone = await ask(server)
    of_bob = await ask(server, approvers=["bob", "role:approver"], quorum=2)
    own = await ask(server, by="ann")
    done = await ask(server)
    assert (await decide(server, done)).is_success
    assert (await decide(server, of_bob, by="ann")).is_success

    async def said(headers):
        found = (await server.ok("/approvals", headers=headers))["items"]
        by_id = {one["approval_id"]: (one["can_decide"], one["why_not"]) for one in found}
        for one in (anyone, of_bob, own, done):  # alone it says the same
            alone = await server.ok(place(one), headers=headers)
            assert (alone["can_decide"], alone["why_not"]) == by_id[one["approval_id"]]
            assert (alone["workflow"], alone["version"], alone["by"]) == (
                "asking",
                0,
                "ann" if one is own else "starter",
            )
        return [by_id[one["approval_id"]] for one in (anyone, of_bob, own, done)]

    yes = (True, None)
    assert await said(bearer("ann", "approver")) == [
        yes,
        (False, "already_voted"),
        (False, "own_request"),
        (False, "already_decided"),
    ]
    assert await said(bearer("bob", "admin")) == [yes, yes, yes, (False, "already_decided")]
    assert [why for _, why in await said(bearer("eve", "viewer"))][:3] == ["forbidden"] * 3
    assert (await said(bearer("cleo", "admin")))[1] == (False, "not_asked")


async def test_what_it_says_is_what_a_vote_is_answered(server):
    of_bob, own = await ask(server, approvers=["bob"]), await ask(server, by="ann")
    for approval in (of_bob, own):
        said = await server.ok(place(approval), headers=bearer("ann", "approver"))
        assert said["can_decide"] is False
        assert (await decide(server, approval, by="ann")).status_code in (403, 409)
    assert await listed(server, "mine=true", bearer("bob", "approver")) == [
        of_bob["approval_id"],
        own["approval_id"],
    ]
    assert (await decide(server, of_bob, by="bob")).is_success
    assert await listed(server, "mine=true", bearer("bob", "approver")) == [own["approval_id"]]


async def test_approvals_are_found_by_workflow_node_and_time(server, monkeypatch):
    first, second = await ask(server, name="one"), await ask(server, name="two", timeout_seconds=3600)
    ids = [first["approval_id"], second["approval_id"]]
    ann = bearer("ann", "approver")
    for query, expected in (
        ("workflow=one", ids[:1]),
        ("workflow=none", []),
        ("node=ask&state=pending", ids),
        ("node=said", []),
        ("expires_before=2999-01-01T00:00:00Z", ids[1:]),
        ("expires_before=0", []),
        ("mine=true&workflow=two", ids[1:]),
    ):
        assert await listed(server, query, ann) == expected, query
    assert await listed(server, "workflow=one", bearer("eve", tenant="other")) == []
    monkeypatch.setattr(scans, "LOOKS", 1)
    monkeypatch.setattr(scans, "AT_ONCE", 1)
    page = await server.ok("/approvals?workflow=two&limit=5", headers=ann)
    assert page["items"] == []
    page = await server.ok(f"/approvals?workflow=two&limit=5&cursor={page['next_cursor']}", headers=ann)
    assert ([one["approval_id"] for one in page["items"]], page["next_cursor"]) == (ids[1:], None)


async def test_dead_letters_are_found_and_counted_by_workflow_node_and_code(server, monkeypatch):
    await parked(server, 2, name="one")
    await parked(server, 1, name="two")
    for query, expected in (
        ("", ["one", "one", "two"]),
        ("workflow=two", ["two"]),
        ("node=n1", ["one"]),
        ("code=error&node=n0", ["one", "two"]),
        ("code=timeout", []),
    ):
        found = await server.ok(f"/dead-letters?{query}", headers=bearer())
        assert sorted(one["workflow"] for one in found["items"]) == expected, query
    counts = await server.ok("/dead-letters/counts", headers=bearer())
    assert (counts["total"], counts["capped"]) == (3, False)
    groups = {(one["workflow"], one["node"], one["code"]): one["count"] for one in counts["groups"]}
    assert groups == {("one", "n0", "error"): 1, ("one", "n1", "error"): 1, ("two", "n0", "error"): 1}
    assert all(one["oldest_at"] <= one["newest_at"] for one in counts["groups"])
    assert (await server.ok("/dead-letters/counts?workflow=two", headers=bearer()))["total"] == 1
    for path in ("/dead-letters/requeue", "/dead-letters/discard"):
        assert (await server.ok(path, {"workflow": "two"}, headers=bearer()))["matched"] == 1
        assert (await server.ok(path, {"workflow": "one", "node": "n1"}, headers=bearer()))["matched"] == 1
        assert (await server.ok(path, {}, headers=bearer()))["matched"] == 3
    nothing = {"total": 0, "capped": False, "groups": []}
    assert await server.ok("/dead-letters/counts?state=discarded", headers=bearer()) == nothing
    assert await server.ok("/dead-letters/counts", headers=bearer("eve", tenant="other")) == nothing
    monkeypatch.setattr(dead_letters, "MOST", 1)
    monkeypatch.setattr(dead_letters, "_COUNTED", 1)
    assert (await server.ok("/dead-letters/counts", headers=bearer()))["capped"] is True


async def test_a_run_without_people_asks_none(server):
    await server.start(workflow(transform("a", 1)), headers=bearer())
    assert await listed(server, "mine=true", bearer()) == []
