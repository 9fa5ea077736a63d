"""Runs over HTTP: what is asked is what happens, and what is shown is what the engine says."""

import asyncio
from typing import Any

import pytest

from perdure.access.principal import LOCAL
from perdure.model import compile_definition
from perdure.runtime.pruner import DAY, Pruner
from perdure.service import Service, tenancy
from perdure.service.errors import Invalid
from tests.api.helpers import serving
from tests.engine import tasks
from tests.engine.helpers import check, task, transform, until_true, workflow

TWO = workflow(transform("a", {"x": "{{ inputs.q }}"}), transform("b", "{{ a.x }}", ["a"]))
PARKED: dict[str, Any] = {"on_failure": "park", "retry": {"max_attempts": 1}}
SIGNALLED = workflow({"id": "w", "type": "wait", "config": {"signal": "go"}}, transform("after", "{{ w }}", ["w"]))


async def until_state(server, run_id, wanted):
    async def look():
        return (await server.ok(f"/runs/{run_id}"))["state"] == wanted

    await until_true(look, f"{run_id} is {wanted}")


async def until_node(server, run_id, node, wanted):
    async def look():
        return (await server.ok(f"/runs/{run_id}/nodes/{node}"))["state"] == wanted

    await until_true(look, f"{node} is {wanted}")


async def test_a_run_is_started_waited_for_and_shown(server):
    response = await server.post(
        "/runs", {"definition": TWO, "inputs": {"q": 7}, "tags": {"who": "me"}, "wait_seconds": 20}
    )
    assert response.status_code == 201
    started = response.json()
    assert (started["state"], started["outputs"], started["error"]) == ("completed", {"b": 7}, None)
    assert response.headers["location"] == f"/api/v1/runs/{started['run_id']}"
    run = await server.ok(f"/runs/{started['run_id']}")
    assert run["inputs"] == {"q": 7}
    assert run["tags"] == {"who": "me"}
    assert {name: node["output"] for name, node in run["nodes"].items()} == {"a": {"x": 7}, "b": 7}
    await check(server.engine.journal, started["run_id"])


async def test_a_start_is_answered_when_it_is_durable_and_the_wait_ends_with_its_time(server):
    started = await server.ok("/runs", {"definition": SIGNALLED, "wait_seconds": 0.05})
    assert (started["state"], started["outputs"]) == ("running", None)
    assert await server.engine.journal.find_run(started["run_id"]) is not None
    signalled = await server.ok(f"/runs/{started['run_id']}/signal", {"name": "go", "payload": {"n": 1}})
    assert signalled["run_id"] == started["run_id"]
    await until_state(server, started["run_id"], "completed")
    assert (await server.ok(f"/runs/{started['run_id']}"))["outputs"] == {"after": {"n": 1}}


ENDED_AT_ONCE = [
    ("{{ inputs.q }}", "completed", {"t": "d"}, None),
    ("{{ inputs.q + 1 }}", "failed", None, "template_error"),
]


@pytest.mark.parametrize(("value", "state", "outputs", "code"), ENDED_AT_ONCE)
async def test_the_answer_to_a_start_has_the_end_of_a_run_that_ended_at_once(server, value, state, outputs, code):
    definition = {"name": "quick", "nodes": [{"id": "t", "type": "transform", "config": {"value": value}}]}
    started = await server.ok("/runs", {"definition": definition, "inputs": {"q": "d"}})
    run = await server.ok(f"/runs/{started['run_id']}")
    assert (started["state"], started["outputs"], started["error"]) == (state, outputs, run["error"])
    assert code == (None if run["error"] is None else run["error"]["code"])


async def test_a_start_that_would_wait_longer_than_a_start_may_is_refused_with_the_maximum(server):
    response = await server.post("/runs", {"definition": TWO, "wait_seconds": 301})
    assert response.status_code == 422
    assert "300" in response.json()["detail"]
    with pytest.raises(Invalid, match="wait_seconds is at most 300, this is 301") as refused:
        await Service(server.engine, LOCAL).runs.start(definition=TWO, wait_seconds=301)
    assert refused.value.troubles[0].path == "wait_seconds"
    assert (await server.ok("/runs"))["items"] == []


async def test_the_same_key_starts_one_run_however_often_and_at_once(server):
    body = {"definition": TWO, "inputs": {"q": 1}}
    key = {"Idempotency-Key": "order-17"}
    responses = await asyncio.gather(*(server.post("/runs", body, headers=key) for _ in range(20)))
    assert sorted({response.status_code for response in responses}) == [200, 201]
    assert [response.status_code for response in responses].count(201) == 1
    assert len({response.json()["run_id"] for response in responses}) == 1
    later = await server.post("/runs", body, headers=key)
    assert (later.status_code, later.headers["idempotency-replayed"]) == (200, "true")
    other = await server.post("/runs", {**body, "inputs": {"q": 2}}, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    for more in ({"correlation_id": "one"}, {"rollout_key": "ann"}):
        assert (await server.post("/runs", {**body, **more}, headers=key)).status_code == 409, more
    twice = [("Idempotency-Key", "order-17"), ("Idempotency-Key", "order-18")]
    assert (await server.post("/runs", body, headers=twice)).status_code == 400
    assert len((await server.ok("/runs"))["items"]) == 1


async def test_the_same_key_makes_one_rerun_however_often_and_at_once(server):
    source = (await server.start(TWO, {"q": 1}))["run_id"]
    path, key = f"/runs/{source}/rerun", {"Idempotency-Key": "again-17"}
    responses = await asyncio.gather(*(server.post(path, {}, headers=key) for _ in range(20)))
    assert [response.status_code for response in responses].count(201) == 1
    assert sorted({response.status_code for response in responses}) == [200, 201]
    [made] = {response.json()["run_id"] for response in responses}
    later = await server.post(path, {}, headers=key)
    assert (later.status_code, later.headers["idempotency-replayed"]) == (200, "true")
    assert (later.json()["run_id"], later.json()["origin"]) == (made, source)
    for other in ({"inputs": {"q": 2}}, {"from_node": "b"}):
        refused = await server.post(path, other, headers=key)
        assert (refused.status_code, refused.json()["code"]) == (409, "idempotency_conflict"), other
    started = await server.post("/runs", {"definition": TWO, "inputs": {"q": 1}}, headers=key)
    assert (started.status_code, started.json()["code"]) == (409, "idempotency_conflict")
    assert len((await server.ok("/runs"))["items"]) == 2
    assert (await server.post(path, {})).json()["run_id"] != made  # without a key, each is another


@pytest.mark.parametrize("stored", [True, False])
async def test_an_answer_that_is_late_says_written_down_only_when_it_is(server, monkeypatch, stored):
    run_id = (await server.start(TWO, {"q": 1}))["run_id"]
    monkeypatch.setattr(tenancy, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(server.engine.coordinator.share, "holds", lambda run_id: False)  # another process has the run

    async def write(*given, **named):
        if not stored:
            await asyncio.Event().wait()  # a database that does not answer

    monkeypatch.setattr(server.engine.journal, "put_command", write)
    response = await server.post(f"/runs/{run_id}/cancel", {})
    assert (response.status_code, response.json()["code"]) == (504, "answer_late")
    assert ("written down" in response.json()["detail"]) is stored
    assert ("not known" in response.json()["detail"]) is not stored


async def prune(server, *, days, retention_days):
    """What the pruner does so many days from now."""
    later = server.engine.clock.now() + days * DAY

    class Later:
        now = staticmethod(lambda: later)
        sleep = staticmethod(lambda seconds: asyncio.sleep(0))

    clock: Any = Later
    return await Pruner(
        server.engine.journal,
        server.engine.archive,
        clock,
        retention_days=retention_days,
        event_days=7,
        session_days=90,
    ).prune()


async def test_protocol_11_the_key_of_a_run_that_goes_on_is_never_forgotten(server):
    body, key = {"definition": SIGNALLED}, {"Idempotency-Key": "order-17"}
    first = await server.post("/runs", body, headers=key)
    assert await prune(server, days=400, retention_days=30) == 0
    again = await server.post("/runs", body, headers=key)
    assert (again.status_code, again.json()["run_id"]) == (200, first.json()["run_id"])


async def test_protocol_11_a_key_outlives_a_run_that_is_kept_for_less_than_seven_days(server):
    body, key = {"definition": TWO, "inputs": {"q": 1}, "wait_seconds": 10}, {"Idempotency-Key": "order-17"}
    first = await server.post("/runs", body, headers=key)
    run_id = first.json()["run_id"]
    assert first.json()["state"] == "completed"
    assert await prune(server, days=6.9, retention_days=1) == 1
    again = await server.post("/runs", body, headers=key)
    assert (again.status_code, again.json()["code"]) == (409, "idempotency_conflict")
    assert f"started run {run_id}, which has ended and is no longer kept" in again.json()["detail"]
    assert (await server.ok("/runs"))["items"] == []
    assert await prune(server, days=7.1, retention_days=1) == 0
    assert (await server.post("/runs", body, headers=key)).status_code == 201


async def test_protocol_11_a_repeated_rerun_is_answered_when_its_source_is_no_longer_kept(server):
    source = (await server.start(SIGNALLED, wait=0))["run_id"]
    await server.ok(f"/runs/{source}/cancel", {})
    path, key = f"/runs/{source}/rerun", {"Idempotency-Key": "again-17"}
    made = (await server.post(path, {}, headers=key)).json()["run_id"]
    assert await prune(server, days=6.9, retention_days=1) == 1
    again = await server.post(path, {}, headers=key)
    assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
    assert (again.json()["run_id"], again.json()["origin"]) == (made, source)
    changed = await server.post(path, {"inputs": {"q": 2}}, headers=key)
    assert (changed.status_code, changed.json()["code"]) == (409, "idempotency_conflict")
    for more in ({}, {"headers": {"Idempotency-Key": "another"}}):
        assert (await server.post(path, {}, **more)).status_code == 404


async def test_runs_are_listed_in_pages_and_filtered(server):
    for number in range(5):
        await server.start(
            {**TWO, "name": "even" if number % 2 == 0 else "odd"}, {"q": number}, tags={"n": str(number)}
        )
    first = await server.ok("/runs?limit=3")
    rest = await server.ok("/runs", params={"limit": 3, "cursor": first["next_cursor"]}, method="GET")
    ids = [run["run_id"] for run in first["items"] + rest["items"]]
    assert (len(set(ids)), len(ids), rest["next_cursor"]) == (5, 5, None)
    assert [run["workflow"] for run in (await server.ok("/runs?workflow=odd"))["items"]] == ["odd", "odd"]
    assert [run["tags"] for run in (await server.ok("/runs?tag=n%3D3"))["items"]] == [{"n": "3"}]
    assert (await server.ok("/runs?state=failed&state=cancelled"))["items"] == []
    newest = first["items"][0]["created_at"]
    assert [run["run_id"] for run in (await server.ok(f"/runs?since={newest}"))["items"]] == [ids[0]]
    assert len((await server.ok(f"/runs?until={newest}"))["items"]) == 4
    assert len((await server.ok("/runs?since=2020-01-01T00:00:00Z"))["items"]) == 5


async def test_a_run_is_seen_from_every_side(server):
    run_id = (await server.start(TWO, {"q": 3}))["run_id"]
    events = (await server.ok(f"/runs/{run_id}/events"))["items"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["type"] == "run.completed"
    page = await server.ok(f"/runs/{run_id}/events?after=2&limit=2")
    assert ([event["seq"] for event in page["items"]], page["next_cursor"]) == ([3, 4], "4")
    assert (await server.ok(f"/runs/{run_id}/state?at=1"))["state"] == "running"
    assert (await server.get(f"/runs/{run_id}/state?at=999")).status_code == 404
    path = (await server.ok(f"/runs/{run_id}/path"))["items"]
    assert [(step["node"], step["rule"], step["taken"]) for step in path] == [("a", "all", ["b"]), ("b", "all", [])]
    diff = await server.ok(f"/runs/{run_id}/diff?at=1")
    assert {one["path"]: one["after"] for one in diff["run"] if "after" in one}["/outputs"] == {"b": 3}
    assert sorted(diff["nodes"]) == ["a", "b"]


async def test_two_runs_are_compared_by_what_matters(server):
    first = (await server.start(TWO, {"q": 1}))["run_id"]
    second = (await server.start(TWO, {"q": 2}))["run_id"]
    diff = await server.ok(f"/runs/{first}/diff?other={second}")
    assert {(one["path"], one["before"], one["after"]) for one in diff["run"]} == {
        ("/inputs/q", 1, 2),
        ("/outputs/b", 1, 2),
    }
    assert diff["nodes"] == {
        "a": [{"path": "/output/x", "change": "changed", "before": 1, "after": 2}],
        "b": [{"path": "/output", "change": "changed", "before": 1, "after": 2}],
    }


async def test_explain_says_what_a_node_waits_for(server):
    run_id = (await server.start(SIGNALLED, wait=0))["run_id"]
    await until_node(server, run_id, "w", "waiting")
    said = (await server.ok(f"/runs/{run_id}/explain?node=w"))["nodes"]
    assert said == {"w": "w waits for the signal 'go'."}
    assert sorted((await server.ok(f"/runs/{run_id}/explain"))["nodes"]) == ["after", "w"]
    missing = await server.get(f"/runs/{run_id}/explain?node=nope")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


async def test_a_run_is_paused_resumed_and_cancelled(server):
    run_id = (await server.start(SIGNALLED, wait=0))["run_id"]
    assert (await server.ok(f"/runs/{run_id}/pause", {"reason": "lunch"}))["state"] == "paused"
    assert (await server.ok(f"/runs/{run_id}/resume", {}))["state"] == "running"
    assert (await server.ok(f"/runs/{run_id}/cancel", {"reason": "enough"}))["state"] in ("cancelling", "cancelled")
    await until_state(server, run_id, "cancelled")
    again = await server.post(f"/runs/{run_id}/pause")
    assert (again.status_code, again.json()["code"]) == (409, "not_running")
    events = (await server.ok(f"/runs/{run_id}/events"))["items"]
    assert [event["data"].get("reason") for event in events if event["type"] == "run.paused"] == ["lunch"]


async def test_a_failed_run_is_retried_and_rerun_from_a_node(server):
    definition = workflow(transform("a", 1), task("b", "gated_failure", ["a"], retry={"max_attempts": 1}))
    definition["nodes"][1]["config"]["function"] = "tests.api.test_runs:fail_until_open"
    failed = await server.start(definition)
    assert (failed["state"], failed["error"]["code"]) == ("failed", "error")
    tasks.gate_of("open").set()
    assert (await server.ok(f"/runs/{failed['run_id']}/retry", {}))["generation"] == 2
    await until_state(server, failed["run_id"], "completed")
    rerun = await server.ok(f"/runs/{failed['run_id']}/rerun", {"from_node": "b"})
    assert rerun["origin"] == failed["run_id"]
    await until_state(server, rerun["run_id"], "completed")
    kept = (await server.ok(f"/runs/{rerun['run_id']}/events"))["items"]
    assert [event["node"] for event in kept if event["data"].get("adopted")] == ["a"]
    assert (await server.post(f"/runs/{failed['run_id']}/rerun", {"from_node": "nope"})).status_code == 404


def fail_until_open():
    if not tasks.gate_of("open").is_set():
        raise RuntimeError("not yet")
    return {"done": True}


async def test_a_patch_is_tried_before_it_is_taken(server):
    run_id = (await server.start(SIGNALLED, wait=0))["run_id"]
    await until_node(server, run_id, "w", "waiting")
    place = {"id": "more", "type": "transform", "config": {"value": 5}}
    operations = [
        {"op": "add", "path": "/nodes/-", "value": place},
        {"op": "add", "path": "/edges/-", "value": {"from": "w", "to": "more"}},
    ]
    tried = await server.ok(f"/runs/{run_id}/patch", {"patch": operations, "dry_run": True})
    assert (tried["possible"], tried["applied"], tried["added"]) == (True, False, ["more"])
    assert "more" not in (await server.ok(f"/runs/{run_id}"))["nodes"]
    gone = [
        {"op": "remove", "path": "/nodes/1"},
        {"op": "remove", "path": "/edges/0"},
        {"op": "replace", "path": "/nodes/0/config/value", "value": 1},
    ]
    refused = await server.ok(f"/runs/{run_id}/patch", {"patch": gone, "dry_run": True})
    assert not refused["possible"]
    assert refused["refused"]
    done = await server.ok(f"/runs/{run_id}/patch", {"patch": operations, "reason": "one more"})
    assert done["applied"]
    await server.ok(f"/runs/{run_id}/signal", {"name": "go"})
    await until_state(server, run_id, "completed")
    assert (await server.ok(f"/runs/{run_id}"))["outputs"]["more"] == 5
    bad = await server.post(f"/runs/{run_id}/patch", {"patch": [{"op": "add", "path": "nodes"}]})
    assert (bad.status_code, bad.json()["code"]) == (422, "patch_invalid")
    neither = await server.post(f"/runs/{run_id}/patch", {})
    assert (neither.status_code, neither.json()["problems"][0]["path"]) == (422, "patch")


async def test_the_definition_of_a_run_is_known_at_every_event_though_it_was_patched_and_is_not_registered(server):
    asks = workflow({"id": "a", "type": "wait", "config": {"signal": "go"}}, name="loose")
    run_id = (await server.start(asks, wait=0))["run_id"]
    first = await server.ok(f"/runs/{run_id}/definition")
    assert (first["definition"]["name"], first["patches"]) == ("loose", [])
    added = [{"op": "add", "path": "/nodes/-", "value": transform("b", 1, ["a"])}]
    await server.ok(f"/runs/{run_id}/patch", {"patch": added, "reason": "one more"})
    back = [{"op": "remove", "path": "/edges/0"}, {"op": "remove", "path": "/nodes/1"}]
    await server.ok(f"/runs/{run_id}/patch", {"patch": back})
    now = await server.ok(f"/runs/{run_id}/definition")
    assert (now["hash"], now["definition"]) == (first["hash"], first["definition"])
    assert [(one["reason"], one["patch"], one["by"]) for one in now["patches"]] == [
        ("one more", added, "local"),
        ("", back, "local"),
    ]
    once, twice = now["patches"]
    then = await server.ok(f"/runs/{run_id}/definition?at={once['seq']}")
    assert [one["id"] for one in then["definition"]["nodes"]] == ["a", "b"]
    assert (then["hash"], then["patches"]) == (once["hash"], [once])
    before = await server.ok(f"/runs/{run_id}/definition?at={once['seq'] - 1}")
    assert (before["hash"], before["patches"], twice["hash"]) == (first["hash"], [], first["hash"])
    late = await server.get(f"/runs/{run_id}/definition?at={twice['seq'] + 1}")
    assert (late.status_code, late.json()["code"]) == (404, "not_found")


@pytest.mark.slow
async def test_nodes_of_a_large_run_are_paged_and_their_outputs_given_on_demand(server):
    nodes = [transform(f"n{number}", "x" * 100) for number in range(1200)]
    run_id = (await server.start(workflow(*nodes)))["run_id"]
    run = await server.ok(f"/runs/{run_id}")
    assert (len(run["nodes"]), run["next_nodes"]) == (1000, list(run["nodes"])[-1])
    seen, cursor = [], None
    while True:
        params = {"limit": 500} if cursor is None else {"limit": 500, "cursor": cursor}
        page = await server.ok(f"/runs/{run_id}/nodes", params=params)
        seen += [node["node"] for node in page["items"]]
        assert all("output" not in node and node["size"] == 102 for node in page["items"])
        if (cursor := page["next_cursor"]) is None:
            break
    assert sorted(seen) == sorted(node["id"] for node in nodes)
    assert seen[:1000] == list(run["nodes"])
    with_outputs = await server.ok(f"/runs/{run_id}/nodes?limit=1&outputs=true")
    assert with_outputs["items"][0]["output"] == "x" * 100
    assert (await server.ok(f"/runs/{run_id}/nodes/n7"))["output"] == "x" * 100


async def test_a_large_output_is_a_preview_in_the_run_and_whole_in_its_node(server):
    run_id = (await server.start(workflow(transform("big", {"text": "y" * 100_000}), transform("end", 1, ["big"]))))[
        "run_id"
    ]
    run = await server.ok(f"/runs/{run_id}")
    assert run["nodes"]["big"]["output"]["preview"].startswith('{"text":"yyy')
    assert run["nodes"]["big"]["size"] > 100_000
    node = await server.ok(f"/runs/{run_id}/nodes/big")
    assert node["output"] == {"text": "y" * 100_000}
    assert node["visits"][0]["output"] == node["output"]


async def test_a_child_is_found_by_the_id_that_its_parent_gave_it(server):
    child = workflow(transform("x", 1), name="child")
    await server.engine.workflows.register(compile_definition(child))
    parent = workflow({"id": "call", "type": "workflow", "config": {"workflow": "child"}}, name="parent")
    run_id = (await server.start(parent))["run_id"]
    found = (await server.ok(f"/runs?parent={run_id}"))["items"]
    assert [run["run_id"] for run in found] == [f"{run_id}:call"]
    assert (await server.ok(f"/runs/{run_id}:call"))["outputs"] == {"x": 1}
    assert (await server.ok(f"/runs/{run_id}:call/events"))["items"]
    assert (await server.get(f"/runs/{run_id}/call")).status_code == 404


async def test_inputs_that_do_not_fit_are_refused_with_the_reason(server):
    definition = {**TWO, "inputs": {"type": "object", "required": ["q"]}}
    response = await server.post("/runs", {"definition": definition, "inputs": {"z": 1}})
    assert (response.status_code, response.json()["code"]) == (422, "invalid_inputs")
    assert "q" in response.json()["detail"]
    bad = await server.post("/runs", {"definition": {"name": "x", "nodes": [{"id": "1"}], "edgs": []}})
    assert (bad.status_code, bad.json()["code"]) == (422, "invalid_definition")
    assert {problem["code"] for problem in bad.json()["problems"]} >= {"unknown_key", "invalid_id"}


async def test_a_server_that_is_told_to_stop_ends_while_streams_are_open(tmp_path):
    async with serving(tmp_path, real=True) as server:
        run_id = (await server.start(SIGNALLED, wait=0))["run_id"]
        async with server.client.stream("GET", f"/api/v1/runs/{run_id}/stream") as response:
            lines = response.aiter_lines()
            while not (await anext(lines)).startswith("id: "):
                pass
            server.app.state.site.engine.feed.close()
            assert [line async for line in lines][-1] == ""


async def test_explain_says_which_limit_a_queued_node_waits_for(server):
    held = task("b", "gate", args={"name": "held"}, concurrency={"key": "printer", "limit": 1})
    first = (await server.start(workflow(held, name="one"), wait=0))["run_id"]
    await until_true(lambda: tasks.gates.get("held"), "the first one has the printer")
    second = (await server.start(workflow(held, name="two"), wait=0))["run_id"]
    await until_node(server, second, "b", "queued")

    async def said():
        text = (await server.ok(f"/runs/{second}/explain?node=b"))["nodes"]["b"]
        return text if "It waits:" in text else None

    assert "printer" in await until_true(said, "it says why")
    tasks.gate_of("held").set()
    for run_id in (first, second):
        await until_state(server, run_id, "completed")


async def test_explain_sees_what_the_items_of_a_map_wait_for(server):
    one = {**task("one", "gate", args={"name": "items"}), "concurrency": {"key": "press", "limit": 1}}
    del one["id"]
    run_id = (
        await server.start(workflow({"id": "each", "type": "map", "config": {"over": [1, 2], "node": one}}), wait=0)
    )["run_id"]

    async def said():
        text = (await server.ok(f"/runs/{run_id}/explain?node=each"))["nodes"]["each"]
        return text if "It waits:" in text else None

    assert "press" in await until_true(said, "it says why")
    tasks.gate_of("items").set()
    await until_state(server, run_id, "completed")


async def test_the_error_of_a_run_names_its_node_wherever_it_is_shown(server):
    run_id = (await server.start(workflow(task("good"), task("bad", "boom", ["good"]), name="fails")))["run_id"]
    shown = await server.ok(f"/runs/{run_id}")
    (listed,) = (await server.ok("/runs?workflow=fails"))["items"]
    last = (await server.ok(f"/runs/{run_id}/events"))["items"][-1]
    assert [one["node"] for one in (shown["error"], listed["error"], last["data"]["error"])] == ["bad"] * 3


async def test_the_error_of_a_child_is_that_of_the_node_that_called_it(server):
    await server.engine.workflows.register(compile_definition(workflow(task("inner", "boom"), name="child")))
    call = {"id": "call", "type": "workflow", "config": {"workflow": "child"}}
    run_id = (await server.start(workflow(call, name="parent")))["run_id"]
    shown = await server.ok(f"/runs/{run_id}")
    assert shown["error"]["node"] == "call"
    assert "node" not in shown["nodes"]["call"]["error"]
    assert (await server.ok(f"/runs/{run_id}:call"))["error"]["node"] == "inner"


async def test_a_list_has_no_children_unless_they_are_asked_for(server):
    human = {"id": "ask", "type": "human", "config": {}}
    await server.engine.workflows.register(compile_definition(workflow(human, name="child")))
    call = {"id": "call", "type": "workflow", "config": {"workflow": "child"}}
    run_id = (await server.start(workflow(call, name="parent"), wait=0))["run_id"]

    async def look(query):
        return [one["run_id"] for one in (await server.ok(f"/runs?{query}"))["items"]]

    await until_true(lambda: look(f"parent={run_id}&state=waiting"), "the child waits")
    assert await look("") == [run_id]
    assert sorted(await look("children=true")) == [run_id, f"{run_id}:call"]
    assert (await server.get("/runs?state=waiting&state=failed")).status_code == 422


async def test_a_run_says_who_started_it_by_which_alias_and_what_its_work_is_called(server):
    await server.engine.workflows.register(compile_definition(workflow(task("about", "correlated"), name="child")))
    call = {"id": "call", "type": "workflow", "config": {"workflow": "child"}}
    parent = workflow(task("mine", "correlated"), call, task("bad", "fail", **PARKED), name="parent")
    await server.ok("/workflows", parent)
    started = await server.ok("/runs", {"workflow": "parent", "correlation_id": "order-7"})
    run_id = started["run_id"]
    await until_node(server, run_id, "bad", "parked")
    await until_node(server, run_id, "call", "completed")
    shown = await server.ok(f"/runs/{run_id}")
    assert (shown["submitted_by"], shown["alias"], shown["correlation_id"]) == ("local", "latest", "order-7")
    assert (shown["dlq_count"], shown["inputs"], shown["parent"]) == (1, {}, None)
    assert shown["last_event_at"] == (await server.ok(f"/runs/{run_id}/events"))["items"][-1]["at"]
    assert shown["nodes"]["mine"]["output"] == "order-7"
    child = await server.ok(f"/runs/{run_id}:call")
    assert (child["outputs"], child["correlation_id"]) == ({"about": "order-7"}, "order-7")
    assert (child["submitted_by"], child["parent"]) == (f"run {run_id}", run_id)
    listed = {one["run_id"]: one for one in (await server.ok("/runs?children=true"))["items"]}
    for name in ("submitted_by", "alias", "dlq_count", "last_event_at"):
        assert listed[run_id][name] == shown[name], name
        assert listed[f"{run_id}:call"][name] == child[name], name


async def test_what_a_change_would_do_is_told_before_it_is_done(server):
    definition = workflow(
        transform("a", 1), task("b", "fail_for_good", ["a"], retry={"max_attempts": 1}), transform("c", 1, ["b"])
    )
    definition["nodes"][1]["config"]["function"] = "tests.api.test_runs:refuse"
    run_id = (await server.start(definition))["run_id"]
    before = (await server.ok(f"/runs/{run_id}/events"))["items"]
    retry = await server.ok(f"/runs/{run_id}/retry", {"dry_run": True})
    assert (retry["possible"], retry["again"], retry["kept"]) == (True, ["b", "c"], ["a"])
    assert retry["totals"] == {"again": 2, "kept": 1, "undo": 0, "stops": 0}
    rerun = await server.post(f"/runs/{run_id}/rerun", {"dry_run": True, "from_node": "b"})
    assert (rerun.status_code, rerun.json()["kept"]) == (200, ["a"])
    given = {"dry_run": True, "from_node": "b", "inputs": {"c": 1}}
    refused = await server.ok(f"/runs/{run_id}/rerun", given)
    assert (refused["possible"], refused["code"]) == (False, "rerun_refused")
    cancel = await server.ok(f"/runs/{run_id}/cancel", {"dry_run": True})
    assert (cancel["possible"], cancel["code"], cancel["state"]) == (False, "run_ended", "failed")
    assert (await server.ok(f"/runs/{run_id}/rollback", {"dry_run": True}))["state"] == "rolled_back"
    assert (await server.ok(f"/runs/{run_id}/events"))["items"] == before
    assert len((await server.ok("/runs"))["items"]) == 1
    actions = await server.ok(f"/runs/{run_id}/actions")
    assert {name for name, one in actions["actions"].items() if one["possible"]} == {"retry", "rollback", "rerun"}
    assert actions["actions"]["retry"] == retry
    assert (await server.post(f"/runs/{run_id}/rerun", {"dry_run": True, "from_node": "nope"})).status_code == 404
    said = (await server.ok("/audit"))["items"]
    assert {one["detail"]["after"].get("dry_run") for one in said if one["action"].startswith("runs.re")} == {True}


def refuse():
    raise RuntimeError("no")


async def test_the_signals_that_a_run_waits_for_are_named(server):
    run_id = (await server.start(SIGNALLED, wait=0))["run_id"]
    await until_node(server, run_id, "w", "waiting")
    actions = await server.ok(f"/runs/{run_id}/actions")
    assert actions["signals"] == ["go"]
    assert actions["actions"]["cancel"]["stops"] == ["w"]
    refused = {name: one["code"] for name, one in actions["actions"].items() if not one["possible"]}
    assert refused == {"resume": "no_change", "retry": "not_failed", "rollback": "not_ended"}
