"""What a deployment is made of, and its blobs."""

import os
import socket

from perdure.transport import WorkerBeat
from tests.api.helpers import bearer, serving
from tests.engine import tasks
from tests.engine.helpers import until_true, workflow

OCTETS = {"Content-Type": "application/octet-stream"}


async def test_node_types_are_listed_with_their_schemas(server):
    types = {one["name"]: one for one in (await server.ok("/node-types"))["items"]}
    assert {"task", "http", "human", "wait", "map", "transform"} <= types.keys()
    wait = await server.ok("/node-types/wait")
    assert wait == types["wait"]
    missing = await server.get("/node-types/wit")
    assert (missing.status_code, "did you mean 'wait'?" in missing.json()["detail"]) == (404, True)


async def test_workers_and_queues_are_those_that_beat(server):
    async def look():
        return (await server.ok("/workers"))["items"]

    (worker,) = await until_true(look, "the worker has said that it lives")
    assert (worker["queues"], worker["slots"], worker["running"]) == (["default"], 100, 0)
    (queue,) = (await server.ok("/queues"))["items"]
    assert queue == {
        "queue": "default",
        "workers": 1,
        "slots": 100,
        "running": 0,
        "waiting": 0,
        "backlog": 0,
        "held": 0,
    }
    assert (worker["state"], worker["pid"], worker["host"]) == ("alive", os.getpid(), socket.gethostname())
    assert (await server.client.get("/readyz")).json() == {"status": "ok", "workers": {"alive": 1, "dead": 0}}


async def test_a_queue_says_how_many_wait_there(server):
    tasks.gates.pop("wait", None)
    call = {"function": "tests.engine.tasks:gate", "args": {"name": "wait"}}
    node = {"id": "m", "type": "map", "config": {"over": "{{ inputs.all }}", "node": {"type": "task", "config": call}}}
    run = await server.start({"name": "many", "nodes": [node]}, {"all": list(range(350))}, wait=0)

    async def count():
        (queue,) = (await server.ok("/queues"))["items"]
        return queue if queue["running"] == 100 and queue["waiting"] + queue["backlog"] == 250 else None

    queue = await until_true(count, "100 run, 250 wait")
    assert queue["waiting"] == 100  # the window is twice the slots
    assert len((await server.ok(f"/runs/{run['run_id']}/working"))["tasks"]) == 100
    assert (await server.ok(f"/runs/{run['run_id']}"))["nodes"]["m"]["items"]["running"] == 100
    tasks.gate_of("wait").set()


async def test_a_worker_says_what_it_does_for_runs_of_the_caller_alone(tmp_path):
    async with serving(tmp_path, tokens=True, heartbeat_seconds=0.05) as server:
        tasks.gates.pop("busy", None)
        node = {"id": "a", "type": "task", "config": {"function": "tests.engine.tasks:gate", "args": {"name": "busy"}}}
        mine = bearer("ann", "admin")
        started = await server.ok("/runs", {"definition": {"name": "one", "nodes": [node]}}, headers=mine)

        async def look(headers):
            (worker,) = (await server.ok("/workers", headers=headers))["items"]
            return worker["tasks"]

        async def look_here():
            return await look(mine)

        (found,) = await until_true(look_here, "the worker has the task")
        assert (found["run_id"], found["node"], found["item"], found["attempt"]) == (started["run_id"], "a", None, 1)
        assert await look(bearer("eve", "admin", tenant="other")) == []
        tasks.gate_of("busy").set()


async def test_a_worker_that_fell_silent_is_dead(server):
    server.engine.transport.beat(WorkerBeat("old"))
    server.engine.transport._workers["old"] = (WorkerBeat("old"), server.engine.clock.monotonic() - 16.0)
    assert {one["worker"]: one["state"] for one in (await server.ok("/workers"))["items"]}["old"] == "dead"
    assert (await server.client.get("/readyz")).json()["workers"]["dead"] == 1


async def test_a_blob_is_given_back_byte_for_byte_and_never_as_a_page(server):
    content = b"<script>alert(1)</script>\x00\xff"
    put = await server.post("/blobs", content=content, headers=OCTETS)
    assert (put.status_code, put.json()["size"]) == (201, len(content))
    ref = put.json()["ref"]
    for name in (ref.replace("/", "%2F"), ref.removeprefix("cas://")):
        got = await server.get(f"/blobs/{name}")
        assert got.content == content
        assert got.headers["content-type"] == "application/octet-stream"
        assert got.headers["content-disposition"] == "attachment"
        assert got.headers["x-content-type-options"] == "nosniff"
    for name in ("sha256:" + "0" * 64, "nope", "..%2F..%2Fetc%2Fpasswd"):
        assert (await server.get(f"/blobs/{name}")).status_code == 404, name
    wrong = await server.post("/blobs", content=b"x", headers={"Content-Type": "text/html"})
    assert wrong.status_code == 415


async def test_a_definition_names_a_blob_of_its_tenant_only(tmp_path):
    async with serving(tmp_path, tokens=True) as server:
        put = await server.post("/blobs", content=b'{"value": 5}', headers={**OCTETS, **bearer()})
        node = {"id": "a", "type": "transform", "config_ref": put.json()["ref"]}
        run = await server.start(workflow(node), headers=bearer())
        assert run["outputs"] == {"a": 5}
        other = await server.post("/runs", {"definition": workflow(node)}, headers=bearer(tenant="other"))
        assert (other.status_code, other.json()["problems"][0]["code"]) == (422, "missing_blob")


async def test_logs_of_a_run_are_read_in_pages(server):
    from perdure.archive.stored_lines import LogLine

    run_id = (await server.start(workflow({"id": "a", "type": "transform", "config": {"value": 1}})))["run_id"]
    lines = [
        LogLine(tenant="default", run_id=run_id, node="ab"[n % 2], at=float(n), message=f"line {n}") for n in range(5)
    ]
    await server.engine.journal.archive.append_logs(lines)
    first = await server.ok(f"/runs/{run_id}/logs?limit=3")
    assert [line["message"] for line in first["items"]] == ["line 0", "line 1", "line 2"]
    rest = await server.ok(f"/runs/{run_id}/logs", params={"cursor": first["next_cursor"]})
    assert ([line["message"] for line in rest["items"]], rest["next_cursor"]) == (["line 3", "line 4"], None)
    assert [line["node"] for line in (await server.ok(f"/runs/{run_id}/logs?node=b"))["items"]] == ["b", "b"]
