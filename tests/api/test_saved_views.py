"""Saved views over HTTP: whose they are, who may change what everybody has, and how many there are."""

from urllib.parse import quote

import pytest

from perdure.service import saved_views
from tests.api.helpers import bearer, serving
from tests.attack.marks import attack

ANN, BOB, EVE = bearer("ann", "operator"), bearer("bob", "viewer"), bearer("eve", "admin", tenant="other")


@pytest.fixture
async def server(tmp_path):
    async with serving(tmp_path, tokens=True) as made:
        yield made


async def names(server, who):
    return [(one["name"], one["shared"]) for one in (await server.get("/views", headers=who)).json()["items"]]


async def save(server, name, who, query="state=failed", **more):
    return await server.client.put(f"/api/v1/views/{name}", json={"query": query, **more}, headers=who)


async def test_each_has_views_of_their_own_and_those_of_the_tenant(server):
    assert (await save(server, "mine", BOB)).status_code == 200
    assert (await save(server, "ours", ANN, shared=True)).json()["saved_by"] == "ann"
    assert (await save(server, "mine", ANN, "since=7d")).json()["query"] == "since=7d"
    assert await names(server, BOB) == [("mine", False), ("ours", True)]
    assert (await server.get("/views/mine", headers=BOB)).json()["query"] == "state=failed"
    assert (await server.get("/views/ours", headers=BOB)).json()["shared"] is True
    assert await names(server, EVE) == []
    assert (await server.get("/views/ours", headers=EVE)).status_code == 404


async def test_what_everybody_has_is_changed_by_those_who_operate_runs(server):
    refused = await save(server, "ours", BOB, shared=True)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    await save(server, "ours", ANN, shared=True)
    assert (await server.client.delete("/api/v1/views/ours?shared=true", headers=BOB)).status_code == 403
    assert (await server.client.delete("/api/v1/views/ours", headers=ANN)).status_code == 404  # not her own
    assert (await server.client.delete("/api/v1/views/ours?shared=true", headers=ANN)).status_code == 200
    assert await names(server, ANN) == []


async def test_an_owner_has_a_number_of_views_and_may_change_those(server, monkeypatch):
    monkeypatch.setattr(saved_views, "MOST", 2)
    for name in ("a", "b"):
        assert (await save(server, name, ANN)).status_code == 200
    refused = await save(server, "c", ANN)
    assert (refused.status_code, refused.json()["code"]) == (409, "too_many_views")
    assert (await save(server, "b", ANN, "since=1h")).status_code == 200
    assert (await save(server, "c", BOB)).status_code == 200


@pytest.mark.parametrize("name", ["a%0Ab", "x" * 101])
async def test_a_name_that_nobody_could_read_is_refused(server, name):
    assert (await save(server, name, ANN)).status_code == 422
    assert (await server.get(f"/views/{name}", headers=ANN)).status_code == 404
    assert (await server.client.delete(f"/api/v1/views/{name}", headers=ANN)).status_code == 404


@attack("S30", "a saved view for everybody whose name reads as that of another one")
@pytest.mark.parametrize("name", ["mine\u200b", "\u202eenim", "e\u0301", "a\u009b31m", " mine"])
async def test_a_name_that_reads_as_another_one_is_refused(server, name):
    refused = await save(server, quote(name), ANN, shared=True)
    assert (refused.status_code, refused.json()["problems"][0]["path"]) == (422, "name")
    assert await names(server, BOB) == []


async def test_a_query_is_one_of_an_address(server):
    assert (await save(server, "odd", ANN, "state=\x00")).status_code == 400
    assert (await save(server, "long", ANN, "q" * 2001)).status_code == 422
