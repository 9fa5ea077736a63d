"""Other spellings that the reference documents use, over HTTP."""

from tests.engine.helpers import transform, workflow

ADD = [{"op": "add", "path": "/nodes/-", "value": transform("b", 2)}]


async def test_a_tag_names_the_alias_of_a_workflow_or_alone_the_workflow(server):
    for value in (1, 2):
        await server.post("/workflows", workflow(transform("a", value), name="main"))
    response = await server.client.put("/api/v1/workflows/main/aliases/live", json={"version": 1})
    assert response.is_success, response.text
    started = await server.ok("/runs", {"workflow": "main", "tag": "live", "wait_seconds": 20})
    assert started["outputs"] == {"a": 1}
    started = await server.ok("/runs", {"tag": "main", "wait_seconds": 20})
    assert started["outputs"] == {"a": 2}
    refused = await server.post("/runs", {"workflow": "main@2", "tag": "live"})
    assert refused.status_code == 422
    assert refused.json()["problems"][0]["code"] == "conflicting_keys"


async def test_a_patch_may_be_written_as_operations_with_a_description(server):
    await server.post("/workflows", workflow(transform("a", 1), name="main"))
    body = {"operations": ADD, "description": "more"}
    assert (await server.ok("/workflows/main/patch", body))["version"] == 2
    versions = await server.ok("/workflows/main/versions")
    assert versions["items"][0]["reason"] == "more"
    assert (await server.post("/workflows/main/patch", {})).status_code == 422
    twice = {"operations": ADD, "patch": []}
    assert (await server.post("/workflows/main/patch", twice)).json()["problems"][0]["code"] == "conflicting_keys"
    waiting = workflow({"id": "w", "type": "wait", "config": {"signal": "go"}}, name="live")
    run_id = (await server.ok("/runs", {"definition": waiting}))["run_id"]
    patched = await server.ok(f"/runs/{run_id}/patch", {**body, "dry_run": True})
    assert (patched["possible"], patched["added"]) == (True, ["b"])
