"""What a node yields, over HTTP: as it comes, resumable by edition and number, and from blobs when it has ended."""

import asyncio
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.runtime.worker import outflow
from tests.api.helpers import API, serving
from tests.engine import tasks
from tests.engine.conftest import _nothing_left
from tests.engine.helpers import DEADLINE, until_true, workflow

__all__ = ["_nothing_left"]

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def server(tmp_path, _nothing_left):
    async with serving(tmp_path, real=True) as made:
        yield made


def node(id: str, function: str, **more: Any) -> dict[str, Any]:
    config = {"function": f"tests.engine.streaming:{function}", "args": more.pop("args", {})}
    return {"id": id, "type": "task", "config": config, **more}


TALK = workflow(node("a", "words", stream={}), name="talk")
COUNT = workflow(node("a", "count", args={"n": 700}, stream={"collect": "count"}), name="count")


async def read(response, until=lambda frame: False) -> list[dict[str, Any]]:
    """The frames of a stream, to its end or to the one that is looked for."""
    frames: list[dict[str, Any]] = []
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        name, _, value = line.partition(": ")
        if line:
            fields[name] = value
        elif "data" in fields:
            frames.append({"id": fields["id"], "event": fields["event"], **msgspec.json.decode(fields["data"])})
            fields = {}
            if until(frames[-1]):
                break
    return frames


def chunks(server, run_id, *, node="a", **more):
    return server.client.stream("GET", f"{API}/runs/{run_id}/nodes/{node}/chunks", **more)


async def test_words_come_while_they_are_said_and_a_reader_that_comes_back_misses_none(server):
    run_id = (await server.start(TALK, wait=0))["run_id"]
    async with asyncio.timeout(DEADLINE):
        async with chunks(server, run_id) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            first = await read(response, until=lambda frame: frame.get("number") == 2)
        assert [(frame["id"], frame["event"], frame["chunk"]) for frame in first] == [
            ("1.1", "chunk", "one "),
            ("1.2", "chunk", "two "),
        ]
        async with chunks(server, run_id, params={"follow": "false"}) as response:
            assert len(await read(response)) == 2
        async with chunks(server, run_id, headers={"Last-Event-ID": "1.1"}) as response:
            reading = asyncio.ensure_future(read(response))
            await until_true(lambda: f"words {run_id}" in tasks.gates, "the third word waits")
            tasks.gate_of(f"words {run_id}").set()
            rest = await reading
    assert [(frame["id"], frame["event"]) for frame in rest] == [("1.2", "chunk"), ("1.3", "chunk"), ("1.3", "end")]
    assert rest[-1]["reason"] == "end"
    done = await server.get(f"/runs/{run_id}/nodes/a/chunks", headers={"Last-Event-ID": "1.3"})
    assert (done.status_code, done.content) == (204, b"")


async def test_what_has_ended_is_read_from_where_it_is_stored(server):
    run_id = (await server.start(COUNT))["run_id"]
    async with chunks(server, run_id, params={"after": "1.650"}) as response:
        found = await read(response)
    assert [frame["chunk"] for frame in found[:-1]] == list(range(651, 701))
    async with chunks(server, run_id) as response:
        assert [frame["number"] for frame in (await read(response))[:-1]] == list(range(1, 701))


async def test_a_reader_of_an_edition_that_is_no_more_is_told(server):
    definition = workflow(
        node("a", "fails_once", args={"n": 10}, retry={"max_attempts": 2, "backoff_ms": 1}),
        node("b", "add_and_tell"),
        edges=[{"from": "a", "to": "b.numbers"}],
        name="anew",
    )
    run_id = (await server.start(definition))["run_id"]
    async with chunks(server, run_id, headers={"Last-Event-ID": "1.3"}) as response:
        found = await read(response)
    assert (found[0]["event"], found[0]["id"]) == ("restart", "2.0")
    assert [frame["chunk"] for frame in found[1:-1]] == list(range(1, 11))


async def test_a_stream_that_fails_for_good_says_so(server):
    definition = workflow(node("a", "breaks", args={"n": 3}, stream={}, retry=1, on_failure="continue"), name="broken")
    run_id = (await server.start(definition))["run_id"]
    async with chunks(server, run_id) as response:
        last = (await read(response))[-1]
    assert (last["event"], last["reason"]) == ("end", "failed")
    assert "no more" in last["error"]


async def test_what_is_no_stream_is_not_found_and_a_position_that_is_none_is_refused(server):
    run_id = (await server.start(COUNT))["run_id"]
    for path, status in {
        f"/runs/{run_id}/nodes/a/chunks?port=odd": 404,
        f"/runs/{run_id}/nodes/z/chunks": 404,
        "/runs/nowhere/nodes/a/chunks": 404,
        f"/runs/{run_id}/nodes/a/chunks?after=7": 400,
    }.items():
        assert (await server.get(path)).status_code == status, path


async def figures(server) -> dict[str, float]:
    lines = (await server.client.get("/metrics")).text.splitlines()
    found = [line.split() for line in lines if line.startswith("perdure_stream_") and "_created" not in line]
    return {name.removeprefix("perdure_stream_"): float(value) for name, value in found}


NONE = {
    'chunks_total{way="yielded"}': 0,
    'chunks_total{way="read"}': 0,
    "bytes_total": 0,
    "stalls_total": 0,
    "unread": 0,
    **{f'editions_total{{reason="{reason}"}}': 0 for reason in ("end", "failed", "cancelled", "restart")},
}


async def look_at_what_waits(server) -> None:
    """Figures of a stream whose reader waits, and of the same when it has ended."""
    waiting = workflow(
        node("a", "gated", args={"n": 12}),
        node("b", "wait_and_add"),
        edges=[{"from": "a", "to": "b.numbers"}],
        name="waiting",
    )
    assert await figures(server) == NONE
    run_id = (await server.start(waiting, wait=0))["run_id"]

    async def three_are_unread() -> bool:
        return (await figures(server))["unread"] == 3

    await until_true(three_are_unread, "three chunks wait for their reader")
    tasks.gate_of(f"read {run_id}").set()
    tasks.gate_of(f"three {run_id}").set()

    async def has_ended() -> bool:
        return (await server.ok(f"/runs/{run_id}"))["state"] == "completed"

    await until_true(has_ended, "the run has ended")
    ended = {'chunks_total{way="yielded"}': 12, 'chunks_total{way="read"}': 12, "bytes_total": 15}
    assert await figures(server) == NONE | ended | {'editions_total{reason="end"}': 1}


async def test_figures_say_what_was_yielded_and_read_and_what_waits(server):
    await look_at_what_waits(server)


async def test_every_figure_of_streams_is_in_the_guide(server):
    page = (ROOT / "docs/guides/streams.md").read_text()
    names = {re.sub(r"{.*", "", name) for name in await figures(server)}
    assert names
    assert [name for name in sorted(names) if f"`perdure_stream_{name}`" not in page] == []


async def test_figures_say_that_a_producer_went_on_without_its_reader(server, monkeypatch):
    monkeypatch.setattr(outflow, "MOST_BEHIND", 10)
    monkeypatch.setattr(outflow, "STALL_SECONDS", 0.01)
    edges = [("a", "left.numbers"), ("a", "right.numbers"), ("left", "join.left"), ("right", "join.right")]
    diamond = workflow(
        node("a", "count", args={"n": 500}, stream={"collect": "count"}),
        node("left", "double", stream={"collect": "count"}),
        node("right", "double", stream={"collect": "count"}),
        node("join", "one_after_the_other"),
        edges=[{"from": source, "to": target} for source, target in edges],
        name="diamond",
    )
    assert (await server.start(diamond))["state"] == "completed"
    found = await figures(server)
    assert found["stalls_total"] > 0
    assert (found['chunks_total{way="yielded"}'], found['chunks_total{way="read"}']) == (1500, 2000)
    assert (found["unread"], found['editions_total{reason="end"}']) == (0, 3)


async def test_figures_say_that_an_edition_began_anew(server):
    anew = workflow(
        node("a", "fails_once", args={"n": 40}, retry={"max_attempts": 3, "backoff_ms": 1}),
        node("b", "add_and_tell"),
        edges=[{"from": "a", "to": "b.numbers"}],
        name="anew",
    )
    assert (await server.start(anew))["state"] == "completed"
    found = await figures(server)
    ends = {reason: found[f'editions_total{{reason="{reason}"}}'] for reason in ("end", "restart", "failed")}
    assert (ends, found['chunks_total{way="yielded"}']) == ({"end": 1, "restart": 1, "failed": 0}, 60)
