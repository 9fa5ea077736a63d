"""Workflows over HTTP: versions, names for them, patches, and what still needs them."""

import asyncio

import pytest
import yaml

from tests.api.helpers import bearer, serving
from tests.api.test_runs import until_node
from tests.engine.helpers import transform, workflow

WAITING = {"id": "w", "type": "wait", "config": {"signal": "go"}}


def definition(value=1, *more, name="orders"):
    return workflow(transform("a", value), *more, name=name)


async def register(server, value=1, *more, **query):
    response = await server.post("/workflows", definition(value, *more), params=query)
    assert response.is_success, response.text
    return response.json()


async def test_a_changed_definition_is_the_next_version_and_the_same_one_the_version_it_has(server):
    first = await server.post("/workflows", definition(1), params={"reason": "the first"})
    assert (first.status_code, first.json()["version"], first.json()["created"]) == (201, 1, True)
    again = await server.post("/workflows", definition(1))
    assert (again.status_code, again.json()["version"], again.json()["created"]) == (200, 1, False)
    assert (await register(server, 2, reason="twice as much"))["version"] == 2
    page = await server.ok("/workflows/orders/versions")
    assert [(one["version"], one["by"], one["reason"]) for one in page["items"]] == [
        (2, "local", "twice as much"),
        (1, "local", "the first"),
    ]
    found = await server.ok("/workflows/orders?version=1")
    assert (found["version"], found["definition"]["nodes"][0]["config"]) == (1, {"value": 1})
    assert found["definition"]["edges"] == []
    assert [one["name"] for one in (await server.ok("/workflows"))["items"]] == ["orders"]
    assert (await server.get("/workflows/orders?version=3")).status_code == 404
    assert (await server.get("/workflows/nope")).status_code == 404


async def test_yaml_is_taken_as_well_and_problems_have_lines(server):
    headers = {"Content-Type": "application/yaml"}
    good = await server.post("/workflows", content=yaml.safe_dump(definition()), headers=headers)
    assert good.status_code == 201
    bad = b"name: x\nnodes:\n  - id: a\n    typ: transform\n"
    response = await server.post("/workflows", content=bad, headers=headers)
    assert response.status_code == 422
    assert ("unknown_key", 4) in [(one["code"], one["line"]) for one in response.json()["problems"]]
    checked = await server.post("/workflows/validate", content=bad, headers=headers)
    assert (checked.status_code, checked.json()["valid"], checked.json()["hash"]) == (200, False, None)
    assert checked.json()["problems"] == response.json()["problems"]
    fine = await server.ok("/workflows/validate", definition())
    assert (fine["valid"], fine["problems"]) == (True, [])


async def test_a_run_keeps_the_version_it_started_with(server):
    await register(server, 1, WAITING)
    started = await server.ok("/runs", {"workflow": "orders"})
    await register(server, 2, WAITING)
    await server.ok(f"/runs/{started['run_id']}/signal", {"name": "go"})
    assert (await server.ok(f"/runs/{started['run_id']}"))["version"] == 1
    outputs = {}
    for name in ("orders", "orders@latest", "orders@1", "orders@2"):
        run = await server.ok("/runs", {"workflow": name})
        await server.ok(f"/runs/{run['run_id']}/signal", {"name": "go"})
        outputs[name] = run["version"]
    assert outputs == {"orders": 2, "orders@latest": 2, "orders@1": 1, "orders@2": 2}
    for name in ("orders@3", "orders@live", "nope", "orders@99999999999999999999", "@", "orders@\u0661"):
        assert (await server.post("/runs", {"workflow": name})).status_code == 404, name


async def test_an_alias_is_moved_and_moved_back(server):
    for value in (1, 2):
        await register(server, value)
    first = await server.ok("/workflows/orders/aliases/live", {"version": 1, "reason": "go"}, method="PUT")
    assert (first["version"], first["revision"], first["by"]) == (1, 1, "local")
    assert (await server.ok("/runs", {"workflow": "orders@live", "wait_seconds": 9}))["outputs"] == {"a": 1}
    moved = await server.ok("/workflows/orders/aliases/live", {"version": 2, "expected_revision": 1}, method="PUT")
    assert moved["revision"] == 2
    late = await server.client.put("/api/v1/workflows/orders/aliases/live", json={"version": 1, "expected_revision": 1})
    assert (late.status_code, late.json()["code"]) == (409, "alias_moved")
    assert (await server.ok("/workflows/orders?alias=live"))["version"] == 2
    back = await server.ok("/workflows/orders/aliases/live/rollback", {})
    assert (back["version"], back["revision"], back["reason"]) == (1, 3, "back to revision 1")
    moves = (await server.ok("/workflows/orders/aliases/live/moves"))["items"]
    assert [(one["revision"], one["version"]) for one in moves] == [(3, 1), (2, 2), (1, 1)]
    assert [one["alias"] for one in (await server.ok("/workflows/orders/aliases"))["items"]] == ["live"]
    await server.ok("/workflows/orders/aliases/live", method="DELETE")
    assert (await server.post("/runs", {"workflow": "orders@live"})).status_code == 404
    assert (await server.post("/workflows/orders/aliases/live/rollback")).status_code == 404


async def test_an_alias_that_cannot_be_is_refused_with_everything_that_is_wrong(server):
    await register(server)
    put = server.client.put
    for body, status in [
        ({"version": 9}, 404),
        ({}, 422),
        ({"version": 1, "versions": [{"version": 1, "percent": 100}]}, 422),
        ({"versions": [{"version": 1, "percent": 60}, {"version": 1, "percent": 60}]}, 422),
        ({"versions": [{"version": 1, "percent": 0}]}, 422),
        ({"versions": []}, 422),
    ]:
        response = await put("/api/v1/workflows/orders/aliases/live", json=body)
        assert response.status_code == status, (body, response.text)
    assert (await put("/api/v1/workflows/orders/aliases/latest", json={"version": 1})).status_code == 422
    assert (await put("/api/v1/workflows/orders/aliases/7up", json={"version": 1})).status_code == 422


@pytest.mark.slow
async def test_a_rollout_gives_each_version_its_share_and_raising_it_takes_nobody_back(server):
    for value in (1, 2):
        await register(server, value)
    shares = {"versions": [{"version": 2, "percent": 30}, {"version": 1, "percent": 70}]}
    alias = await server.ok("/workflows/orders/aliases/live", shares, method="PUT")
    assert (alias["version"], alias["versions"]) == (None, shares["versions"])

    async def choose():
        bodies = [{"workflow": "orders@live", "rollout_key": f"customer {n}"} for n in range(200)]
        runs = await asyncio.gather(*(server.ok("/runs", body) for body in bodies))
        return [run["version"] for run in runs]

    before = await choose()
    assert 0.2 < before.count(2) / len(before) < 0.4
    assert await choose() == before
    shares["versions"] = [{"version": 2, "percent": 60}, {"version": 1, "percent": 40}]
    await server.ok("/workflows/orders/aliases/live", shares, method="PUT")
    after = await choose()
    assert 0.5 < after.count(2) / len(after) < 0.7
    assert all(now == 2 for then, now in zip(before, after, strict=True) if then == 2)


async def test_a_patch_makes_the_next_version(server):
    await register(server, 1)
    operations = [
        {"op": "add", "path": "/nodes/-", "value": transform("b", "{{ a }}")},
        {"op": "add", "path": "/edges/-", "value": {"from": "a", "to": "b"}},
    ]
    tried = await server.post("/workflows/orders/patch", {"patch": operations, "dry_run": True})
    assert (tried.status_code, tried.json()["changes"]["added"]) == (200, ["b"])
    assert (await server.ok("/workflows/orders"))["version"] == 1
    done = await server.post("/workflows/orders/patch", {"patch": operations, "base_version": 1, "reason": "more"})
    assert (done.status_code, done.json()["version"], done.json()["changes"]["edges_added"]) == (201, 2, ["a -> b"])
    late = await server.post("/workflows/orders/patch", {"patch": operations, "base_version": 1})
    assert (late.status_code, late.json()["code"]) == (409, "conflict")
    renamed = await server.post(
        "/workflows/orders/patch", {"patch": [{"op": "replace", "path": "/name", "value": "x"}]}
    )
    assert (renamed.status_code, renamed.json()["problems"][0]["path"]) == (422, "name")
    broken = await server.post("/workflows/orders/patch", {"patch": [{"op": "remove", "path": "/nodes"}]})
    assert (broken.status_code, broken.json()["code"]) == (422, "invalid_definition")
    diff = await server.ok("/workflows/orders/diff?before=1&after=2")
    assert (diff["added"], diff["removed"], diff["edges_added"]) == (["b"], [], ["a -> b"])
    assert (await server.ok("/workflows/orders/diff?before=1"))["after"] == 2


async def test_a_diff_names_what_changed_in_a_node_and_in_the_workflow(server):
    await register(server, 1)
    await server.ok("/workflows", {**definition(2), "description": "more"})
    diff = await server.ok("/workflows/orders/diff?before=1&after=2")
    assert diff["changed"] == {"a": [{"path": "/config/value", "change": "changed", "before": 1, "after": 2}]}
    assert diff["workflow"] == [{"path": "/description", "change": "added", "after": "more"}]


async def test_a_version_that_runs_need_is_not_forgotten(server):
    await register(server, 1, WAITING)
    run_id = (await server.ok("/runs", {"workflow": "orders"}))["run_id"]
    await until_node(server, run_id, "w", "waiting")
    users = await server.ok("/workflows/orders/users?version=1")
    assert (users["count"], [run["run_id"] for run in users["items"]]) == (1, [run_id])
    refused = await server.client.delete("/api/v1/workflows/orders")
    assert (refused.status_code, refused.json()["code"]) == (409, "workflow_in_use")
    await server.ok(f"/runs/{run_id}/cancel", {})
    assert (await server.ok("/workflows/orders", method="DELETE"))["versions_deleted"] == 1
    assert (await server.get("/workflows/orders")).status_code == 404
    assert (await server.ok(f"/runs/{run_id}"))["state"] == "cancelled"
    assert (await register(server, 1, WAITING))["version"] == 2


async def test_tenants_have_workflows_of_their_own(tmp_path):
    async with serving(tmp_path, tokens=True) as server:
        ours, theirs = bearer("ann"), bearer("bob", tenant="other")
        await server.ok("/workflows", definition(1), headers=ours)
        assert (await server.get("/workflows/orders", headers=theirs)).status_code == 404
        assert (await server.ok("/workflows", headers=theirs))["items"] == []
        assert (await server.ok("/workflows", definition(2), headers=theirs))["version"] == 1
        run = await server.ok("/runs", {"workflow": "orders", "wait_seconds": 9}, headers=theirs)
        assert run["outputs"] == {"a": 2}
        assert (await server.get(f"/runs/{run['run_id']}", headers=ours)).status_code == 404
        assert (await server.ok("/runs", headers=ours))["items"] == []
        events = (await server.ok(f"/runs/{run['run_id']}/events", headers=theirs))["items"]
        assert (events[0]["data"]["tenant"], events[0]["data"]["by"]) == ("other", "bob")


async def test_starting_from_a_definition_is_writing_a_workflow(tmp_path):
    async with serving(tmp_path, tokens=True) as server:
        operator = bearer("oli", "operator")
        response = await server.post("/runs", {"definition": definition()}, headers=operator)
        assert (response.status_code, response.json()["code"]) == (403, "forbidden")
        await server.ok("/workflows", definition(), headers=bearer("ann", "author"))
        assert (await server.post("/runs", {"workflow": "orders"}, headers=operator)).status_code == 201


async def test_a_list_with_figures_says_what_each_is_for_and_how_its_runs_do(server):
    for name in ("alpha", "beta"):
        body = {**workflow(transform("a", 1)), "name": name, "description": f"For {name}."}
        await server.ok("/workflows", body)
    await server.ok("/runs", {"workflow": "beta", "wait_seconds": 30})
    assert "open" not in (await server.ok("/workflows"))["items"][0]
    alpha, beta = (await server.ok("/workflows?figures=true"))["items"]
    assert (alpha["description"], alpha["open"], alpha["failed_24h"], alpha["last_run_at"]) == (
        "For alpha.",
        0,
        0,
        None,
    )
    assert (alpha["p95_seconds"], alpha["hours"]) == (None, [0] * 24)
    assert beta["last_run_at"] > 0
    [run] = (await server.ok("/runs?workflow=beta"))["items"]
    assert beta["p95_seconds"] == run["ended_at"] - run["created_at"]
    assert (sum(beta["hours"]), sum(beta["hours"][-2:])) == (1, 1)  # the hour may end while the test runs


async def test_a_definition_is_read_as_yaml_that_registers_as_the_same_version(server):
    body = {**workflow(transform("a", {"text": "yes: no", "big": 2**62})), "name": "written"}
    await server.ok("/workflows", body)
    answer = await server.get("/workflows/written/definition.yaml?version=1")
    assert answer.headers["content-type"].startswith("application/yaml")
    again = await server.post("/workflows", content=answer.text, headers={"Content-Type": "application/yaml"})
    assert again.json()["version"] == 1
    assert (await server.get("/workflows/written/definition.yaml?version=7")).status_code == 404
