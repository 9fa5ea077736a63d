"""Live events: complete, in order, resumable from any process; slow readers cost nothing and are dropped."""

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from perdure.access import LOCAL, Permission
from perdure.api import event_stream, lasting_answer
from perdure.engine import Engine
from tests.api.helpers import API, served, serving
from tests.api.test_runs import SIGNALLED, TWO
from tests.engine import tasks
from tests.engine.conftest import _nothing_left
from tests.engine.helpers import DEADLINE, task, until_true, workflow

__all__ = ["_nothing_left"]


@pytest.fixture
async def server(tmp_path, _nothing_left):
    async with serving(tmp_path, real=True) as made:
        yield made


async def read(response, until=lambda event: False):
    """The events of a stream, to its end or to the one that is looked for."""
    events, fields = [], {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            event = msgspec.json.decode(fields["data"])
            assert (int(fields["id"]), fields["event"]) == (event["seq"], event["type"])
            events.append(event)
            fields = {}
            if until(event):
                break
    return events


def stream(server, run_id, **more):
    return server.client.stream("GET", f"{API}/runs/{run_id}/stream", **more)


async def test_a_stream_has_every_event_and_ends_with_the_run(server):
    run_id = (await server.start(TWO, {"q": 1}))["run_id"]
    async with stream(server, run_id) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = await read(response)
    assert events == (await server.ok(f"/runs/{run_id}/events"))["items"]


async def test_a_reader_that_comes_back_misses_nothing_and_sees_nothing_twice(server):
    run_id = (await server.start(SIGNALLED, wait=0))["run_id"]
    async with stream(server, run_id) as response:
        first = await read(response, until=lambda event: event["type"] == "node.waiting")
    await server.ok(f"/runs/{run_id}/signal", {"name": "go"})
    async with stream(server, run_id, headers={"Last-Event-ID": str(first[-1]["seq"])}) as response:
        rest = await read(response)
    assert [event["seq"] for event in first + rest] == list(range(1, len(first) + len(rest) + 1))
    assert rest[-1]["type"] == "run.completed"
    done = await server.get(f"/runs/{run_id}/stream", headers={"Last-Event-ID": str(rest[-1]["seq"])})
    assert (done.status_code, done.content) == (204, b"")


async def test_events_arrive_while_they_happen(server):
    run_id = (await server.start(SIGNALLED, wait=0))["run_id"]
    async with asyncio.timeout(DEADLINE), stream(server, run_id) as response:
        waiting = asyncio.ensure_future(read(response))
        feed = server.app.state.site.engine.feed
        await until_true(lambda: feed.followed == 1, "somebody follows")
        await server.ok(f"/runs/{run_id}/signal", {"name": "go"})
        assert (await waiting)[-1]["type"] == "run.completed"
    await until_true(lambda: feed.followed == 0, "nobody follows any more")


@pytest.mark.slow
async def test_another_process_that_decides_nothing_serves_the_same_stream(tmp_path):
    async with serving(tmp_path, real=True) as holder:
        run_id = (await holder.start(SIGNALLED, wait=0))["run_id"]
        engine = await Engine.open(f"sqlite:///{tmp_path / 'perdure.db'}")
        try:
            assert not await engine.hold()
            async with served(engine) as follower, asyncio.timeout(DEADLINE):
                streams = [asyncio.ensure_future(_whole(follower, run_id)) for _ in range(3)]
                feed = follower.app.state.site.engine.feed
                await until_true(lambda: feed.followed == 3, "three follow")
                await follower.ok(f"/runs/{run_id}/signal", {"name": "go"})
                for events in await asyncio.gather(*streams):
                    assert events == (await holder.ok(f"/runs/{run_id}/events"))["items"]
                started = await follower.start(TWO, {"q": 5})
                assert started["outputs"] == {"b": 5}
        finally:
            await engine.close(0.5)


async def _whole(server, run_id):
    async with stream(server, run_id) as response:
        return await read(response)


async def test_a_reader_that_leaves_is_forgotten(server):
    run_id = (await server.start(SIGNALLED, wait=0))["run_id"]
    async with stream(server, run_id) as response:
        await read(response, until=lambda event: True)
    await until_true(lambda: server.app.state.site.engine.feed.followed == 0, "nobody follows any more")
    metrics = (await server.client.get("/metrics")).text
    await until_true(lambda: "perdure_streams 0.0" in metrics, "no stream is open")


async def test_a_reader_that_takes_nothing_is_dropped(server, monkeypatch):
    monkeypatch.setattr(lasting_answer, "SLOW_SECONDS", 0.05)
    run_id = (await server.start(TWO, {"q": 1}))["run_id"]
    sent = []

    async def send(message):
        sent.append(message)
        if len(sent) > 2:
            await asyncio.Event().wait()

    async def receive():
        await asyncio.Event().wait()

    service = _service(server)
    call: Any = SimpleNamespace(site=server.app.state.site, principal=LOCAL, request=None)
    place = server.app.state.site.places.enter(LOCAL)
    response = event_stream.EventStream(call, await service.runs.follow(run_id), Permission.RUNS_READ, place)
    async with asyncio.timeout(DEADLINE):
        await response({}, receive, send)
    assert len(sent) == 3
    assert server.app.state.site.engine.feed.followed == 0
    assert server.app.state.site.places.taken == 0


def _service(server):
    from perdure.service import Service

    return Service(server.engine, LOCAL)


@pytest.mark.parametrize("given", ["x", "-1", "1" * 16, "1.5"])
async def test_a_number_that_is_none_is_refused(server, given):
    run_id = (await server.start(TWO, {"q": 1}))["run_id"]
    response = await server.get(f"/runs/{run_id}/stream", headers={"Last-Event-ID": given})
    assert (response.status_code, response.json()["code"]) == (400, "invalid_query")


# -- what is executed --------------------------------------------------------------------------------------------------

GATED = {
    "name": "gated",
    "nodes": [{"id": "a", "type": "task", "config": {"function": "tests.engine.tasks:gate", "args": {"name": "g1"}}}],
}


async def frames(response):
    """Every frame with its name and whether it has an id."""
    fields = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            if "data" in fields:
                yield fields["event"], fields.get("id"), msgspec.json.decode(fields["data"])
            fields = {}


@pytest.mark.slow
async def test_what_is_executed_is_streamed_without_a_number_and_changes_with_it(server):
    tasks.gates.pop("g1", None)
    run = await server.start(GATED, wait=0)
    path = f"{API}/runs/{run['run_id']}/stream"
    names = []
    async with asyncio.timeout(DEADLINE), server.client.stream("GET", path, params={"with": "working"}) as response:
        async for name, number, data in frames(response):
            names.append(name)
            assert (number is None) == (name == "working")
            if name == "working" and data["tasks"]:
                [task] = data["tasks"]
                assert (task["node"], task["attempt"], task["scope"], task["item"]) == ("a", 1, [], None)
                assert task["since"] > 0
                assert (await server.ok(f"/runs/{run['run_id']}/working"))["tasks"] == [task]
                view = await server.ok(f"/runs/{run['run_id']}")
                assert (view["nodes"]["a"]["state"], view["nodes"]["a"]["worker"]) == ("running", task["worker"])
                assert view["started_at"] == view["nodes"]["a"]["started_at"] == task["since"]
                node = await server.ok(f"/runs/{run['run_id']}/nodes/a")
                assert (node["state"], node["visits"][0]["state"]) == ("running", "running")
                [listed] = (await server.ok("/runs"))["items"]
                assert listed["started_at"] == task["since"]
                said = (await server.ok(f"/runs/{run['run_id']}/explain"))["nodes"]["a"]
                assert said.startswith(f"a is running on worker {task['worker']} (process ")
                past = await server.ok(f"/runs/{run['run_id']}/state?at=1")
                assert past["nodes"]["a"]["state"] in ("queued", "pending")
                tasks.gate_of("g1").set()
    assert names[-1] == "run.completed" or names[-1] == "working"
    assert "run.completed" in names
    assert (await server.ok(f"/runs/{run['run_id']}/working"))["tasks"] == []


async def test_a_reader_that_does_not_ask_for_it_gets_events_only(server):
    run = await server.start(TWO)
    async with server.client.stream("GET", f"{API}/runs/{run['run_id']}/stream") as response:
        assert {name for name, _, _ in [one async for one in frames(response)]} & {"working"} == set()


async def test_an_unknown_addition_to_the_stream_is_refused(server):
    run = await server.start(TWO)
    response = await server.get(f"/runs/{run['run_id']}/stream?with=everything")
    assert response.status_code == 400


SAYING = workflow(
    task("say", "says", args={"what": "hello"}),
    task("a", "gate", ["say"], args={"name": "g2"}),
    task("z", "says", ["a"], args={"what": "good bye"}),
)


@pytest.mark.slow
async def test_log_lines_are_streamed_one_by_one_without_a_number_and_the_last_come_after_the_end(server):
    tasks.gates.pop("g2", None)
    run = await server.start(SAYING, wait=0)
    path = f"{API}/runs/{run['run_id']}/stream"
    query = {"with": "working,logs", "outputs": "false"}
    seen = []
    async with asyncio.timeout(DEADLINE), server.client.stream("GET", path, params=query) as response:
        async for name, number, data in frames(response):
            assert (number is None) == (name in ("working", "log"))
            seen.append((name, data))
            if name == "log":
                tasks.gate_of("g2").set()
    lines = [data for name, data in seen if name == "log"]
    assert {one["node"] for one in lines} == {"say", "z"}
    assert [one["message"] for one in lines if one["level"] == "warning"] == ["hello 2", "good bye 2"]
    assert lines == (await server.ok(f"/runs/{run['run_id']}/logs"))["items"]
    assert {"working", "run.completed"} <= {name for name, _ in seen}
    events = [data for name, data in seen if name not in ("working", "log")]
    assert events == (await server.ok(f"/runs/{run['run_id']}/events?outputs=false&limit=1000"))["items"]
    assert [one["omitted"] for one in events if one["type"] == "node.completed" and one["node"] == "a"] == [["output"]]
    later = {"with": "logs", "logs_after": lines[0]["position"], "after": 1}
    async with asyncio.timeout(DEADLINE), server.client.stream("GET", path, params=later) as response:
        again = [data async for name, _, data in frames(response) if name == "log"]
    assert again == lines[1:]
