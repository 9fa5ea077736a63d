"""The same API over PostgreSQL and Redis: whichever process is asked, the answer is that of the deployment."""

import asyncio
import re

import pytest

from tests.api.helpers import mounted, served
from tests.api.test_access import body_of, fill, operations
from tests.api.test_chunks import look_at_what_waits
from tests.api.test_runs import ENDED_AT_ONCE, SIGNALLED, TWO
from tests.api.test_stream import read, stream
from tests.distributed.conftest import deployment
from tests.engine.helpers import task, until_true, workflow

pytestmark = pytest.mark.slow
__all__ = ["deployment"]


async def test_any_process_starts_follows_decides_and_shows(deployment):
    first, second = await deployment.coordinator(), await deployment.coordinator()
    await deployment.worker()
    third = await deployment.open()
    await third.connect()
    async with served(first) as one, served(second) as two, served(third) as three, asyncio.timeout(60):
        servers = (one, two, three)
        run_id = (await one.start(SIGNALLED, wait=0))["run_id"]
        followed = [asyncio.ensure_future(_whole(server, run_id)) for server in servers]
        await two.ok(f"/runs/{run_id}/signal", {"name": "go", "payload": {"n": 1}})
        events = await asyncio.gather(*followed)
        assert events[0] == events[1] == events[2] == (await three.ok(f"/runs/{run_id}/events"))["items"]
        assert events[0][-1]["type"] == "run.completed"
        for server in servers:
            started = await server.start(workflow(task("a", args={"value": 3})))
            assert (started["state"], started["outputs"]["a"]["value"]) == ("completed", 3)
        headers = {"Idempotency-Key": "k"}
        body = {"definition": TWO, "inputs": {"q": 1}}
        posts = [server.post("/runs", body, headers=headers) for server in servers for _ in range(5)]
        answers = await asyncio.gather(*posts)
        assert len({answer.json()["run_id"] for answer in answers}) == 1
        assert [answer.status_code for answer in answers].count(201) == 1
        for server in servers:
            assert [one["slots"] for one in (await server.ok("/queues"))["items"]] == [100]


async def test_figures_of_streams_are_those_of_the_worker_of_the_process_that_is_asked(deployment):
    first = await deployment.coordinator()
    await first.work()
    async with served(first) as one, asyncio.timeout(60):
        await look_at_what_waits(one)


@pytest.mark.parametrize(("value", "state", "outputs", "code"), ENDED_AT_ONCE)
async def test_the_answer_of_any_process_has_the_end_of_a_run_that_ended_at_once(
    deployment, value, state, outputs, code
):
    definition = {"name": "quick", "nodes": [{"id": "t", "type": "transform", "config": {"value": value}}]}
    first, other = await deployment.coordinator(), await deployment.open()
    async with served(first) as one, served(other) as two, asyncio.timeout(60):
        for server in (one, two):
            started = await server.ok("/runs", {"definition": definition, "inputs": {"q": "d"}})
            assert (started["state"], started["outputs"]) == (state, outputs)
            assert code == (None if started["error"] is None else started["error"]["code"])


async def test_a_queue_that_nobody_listens_to_says_how_much_is_held(deployment):
    first = await deployment.coordinator()
    await deployment.worker()
    async with served(first) as server, asyncio.timeout(60):
        run = await server.start(workflow(task("a", queue="gpu")), wait=0)

        async def look():
            found = {one["queue"]: one for one in (await server.ok("/queues"))["items"]}
            return found.get("gpu", {}).get("held")

        assert await until_true(look, "the node is held") == 1
        assert (await server.ok(f"/runs/{run['run_id']}"))["nodes"]["a"]["state"] == "held"


async def _whole(server, run_id):
    async with stream(server, run_id) as response:
        return await read(response)


async def test_workflows_keys_and_audit_are_those_of_the_deployment(deployment):
    first, second = await deployment.coordinator(), await deployment.open()
    async with served(first) as one, served(second) as two, asyncio.timeout(60):
        await one.ok("/workflows", {**TWO, "name": "shared"}, params={"reason": "first"})
        assert (await two.ok("/workflows/shared/versions"))["items"][0]["reason"] == "first"
        await two.ok("/workflows/shared/aliases/live", {"version": 1}, method="PUT")
        run = await one.ok("/runs", {"workflow": "shared@live", "inputs": {"q": 9}, "wait_seconds": 20})
        assert run["outputs"] == {"b": 9}
        key = await two.ok("/keys", {"name": "ci", "roles": ["viewer"]})
        assert [found["key_id"] for found in (await one.ok("/keys"))["items"]] == [key["key_id"]]
        actions = [entry["action"] for entry in (await one.ok("/audit"))["items"]]
        assert actions == ["administration.create_key", "workflows.put_alias", "workflows.register"]
        assert (await one.ok("/audit/verify"))["intact"]
        blob = await one.client.post(
            "/api/v1/blobs", content=b"x", headers={"Content-Type": "application/octet-stream"}
        )
        assert (await two.get(f"/blobs/{blob.json()['ref'].removeprefix('cas://')}")).content == b"x"
        file = await one.ok(f"/runs/{run['run_id']}/export")
        imported = await two.ok("/runs/import", file)
        assert (await one.ok(f"/runs/{imported['run_id']}"))["outputs"] == {"b": 9}


ODD = ["a%00b", "%ED%A0%80", "%FF", "a" * 3000, "%27%20OR%201%3D1", "..%2F..", "%E2%80%A8", "9" * 30]


async def test_ids_that_no_database_can_hold_are_not_found_and_never_a_5xx(deployment):
    engine = await deployment.coordinator()
    async with mounted(engine) as server, asyncio.timeout(60):
        await server.ok("/workflows", {**TWO, "name": "shared"})
        for method, path, operation, document in operations(server):
            names = re.findall(r"\{(\w+)\}", path)
            for odd in ODD if names else ():
                for name in names:
                    values = {"name": "shared", name: "@"}
                    response = await _call(server, method, path, operation, document, values, odd)
                    kept = (200,) if path == "/api/v1/views/{name}" else ()  # any text names a view
                    assert response.status_code in (400, 403, 404, 422, *kept), (method, path, odd, response.text)
        for path, item in document["paths"].items():
            for parameter in item.get("get", {}).get("parameters", ()):
                if parameter["in"] == "query" and "{" not in path:
                    for odd in ("a\0b", "a" * 3000, "9" * 30, "\u2028", "WyJcdTAwMDAiXQ", "WzEuMCwiXHUwMDAwIl0"):
                        response = await server.client.get(path, params={parameter["name"]: odd})
                        assert response.status_code in (200, 400, 404), (path, parameter["name"], odd, response.text)


async def _call(server, method, path, operation, document, values, odd):
    filled = fill(path, values).replace("%40", odd)
    needed = {one["name"]: "1" for one in operation["parameters"] if one["in"] == "query" and one["required"]}
    return await server.client.request(method, filled, params=needed, **body_of(operation, document))
