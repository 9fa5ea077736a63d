"""Pictures over HTTP: places of nodes and edges with stacks, SVG that can run nothing, and answers that a reader keeps."""

import asyncio

import pytest

from perdure.service import pictures
from perdure.service.pictures import Kept
from tests.api.helpers import API
from tests.engine.helpers import transform, workflow

FAN = workflow(
    transform("a", 1),
    *(transform(f"m{number}", 2, ["a"]) for number in range(30)),
    transform("z", 3, [f"m{number}" for number in range(30)]),
    name="fan",
)


@pytest.fixture
def drawings(monkeypatch):
    """How often a layout was planned, and nothing that other tests have drawn."""
    made: list[str] = []
    monkeypatch.setattr(pictures, "_kept", Kept())

    def count(real):
        def draw(ir, *more):
            made.append(ir.hash)
            return real(ir, *more)

        return draw

    for name in ("_describe", "_draw"):
        monkeypatch.setattr(pictures, name, count(getattr(pictures, name)))
    return made


async def test_a_picture_is_planned_once_and_asked_about_by_its_tag(server, drawings):
    registered = await server.ok("/workflows", FAN)
    run = await server.start(FAN)
    first = await server.get("/workflows/fan/graph")
    shown = first.json()
    assert shown["hash"] == registered["hash"]
    assert [one["id"] for one in shown["stacks"]] == ["m0~30"]
    assert len(shown["nodes"]) == 32
    assert (await server.ok(f"/runs/{run['run_id']}/graph")) == shown
    assert drawings == [registered["hash"]]  # one definition, one picture, whoever asks
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "private, no-cache"
    for known in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
        again = await server.get("/workflows/fan/graph", headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    other = await server.get("/workflows/fan/graph?open=m0~30", headers={"If-None-Match": tag})
    assert (other.status_code, other.json()["stacks"][0]["place"]) == (200, None)
    assert other.headers["etag"] != tag
    assert len(drawings) == 2


async def test_many_who_ask_at_once_wait_for_one_layout(server, drawings):
    await server.ok("/workflows", FAN)
    answers = await asyncio.gather(*(server.ok("/workflows/fan/graph?direction=right") for _ in range(8)))
    assert all(one == answers[0] for one in answers)
    assert answers[0]["direction"] == "right"
    assert len(drawings) == 1


async def test_pictures_are_forgotten_when_they_no_longer_fit():
    kept = Kept(100)
    made = []

    async def ask(name, size=40):
        def make():
            made.append(name)
            return bytes(size)

        return await kept.get(name, "t", make)

    for name in ("a", "b", "a", "c", "a", "b"):  # c makes b, used longest ago, go
        await ask(name)
    assert made == ["a", "b", "c", "b"]
    assert len(await ask("large", 101)) == 101  # it is given, and nothing goes for it
    await ask("b")
    assert made == ["a", "b", "c", "b", "large"]


async def test_a_picture_of_a_run_is_of_the_definition_it_followed_then(server):
    asks = workflow({"id": "a", "type": "wait", "config": {"signal": "go"}}, name="loose")
    run_id = (await server.start(asks, wait=0))["run_id"]
    before = await server.ok(f"/runs/{run_id}/graph")
    added = [{"op": "add", "path": "/nodes/-", "value": transform("b", 1, ["a"])}]
    await server.ok(f"/runs/{run_id}/patch", {"patch": added})
    now = await server.ok(f"/runs/{run_id}/graph")
    assert [one["id"] for one in now["nodes"]] == ["a", "b"]
    assert [(one["from"], one["to"], one["kind"]) for one in now["edges"]] == [("a", "b", "plain")]
    assert await server.ok(f"/runs/{run_id}/graph?at=1") == before
    assert ">b<" not in (await server.get(f"/runs/{run_id}/graph.svg?at=1")).text
    assert ">b<" in (await server.get(f"/runs/{run_id}/graph.svg")).text


async def test_a_picture_can_run_nothing_and_shows_what_it_was_given_as_text(server):
    named = "<script>alert(1)</script>"
    hostile = workflow(transform("a", 1), name="hostile", description=named)
    await server.ok("/workflows", hostile)
    run = await server.start(hostile)
    for path in ("/workflows/hostile/graph.svg", f"/runs/{run['run_id']}/graph.svg"):
        answer = await server.get(path)
        assert answer.headers["content-type"] == "image/svg+xml"
        assert answer.headers["content-security-policy"].startswith("sandbox;")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert named not in answer.text
        assert "&lt;script&gt;" in answer.text
        known = await server.get(path, headers={"If-None-Match": answer.headers["etag"]})
        assert (known.status_code, known.content) == (304, b"")
        assert ("completed" in answer.text) == path.startswith("/runs")


async def test_a_definition_that_is_validated_comes_with_its_picture_and_its_canonical_form(server):
    text = b"name: y\nnodes:\n- {id: a, type: input}\n- {id: b, type: output, dependencies: [a]}\n"
    headers = {"Content-Type": "application/yaml"}
    path = f"{API}/workflows/validate"
    plain = (await server.client.post(path, content=text, headers=headers)).json()
    assert plain.keys() == {"valid", "hash", "problems"}
    full = (await server.client.post(f"{path}?graph=1&definition=1", content=text, headers=headers)).json()
    assert full["graph"]["hash"] == full["hash"]
    assert [one["id"] for one in full["graph"]["nodes"]] == ["a", "b"]
    assert [(one["from"], one["to"]) for one in full["definition"]["edges"]] == [("a", "b")]
    bad = (await server.client.post(f"{path}?graph=1&definition=1", content=b"name: y\n", headers=headers)).json()
    assert (bad["valid"], bad["graph"], bad["definition"]) == (False, None, None)


async def test_more_edges_than_a_thread_can_place_are_refused(server, monkeypatch):
    await server.ok("/workflows", FAN)
    monkeypatch.setattr(pictures, "MOST_ARROWS", 59)
    for path in ("/workflows/fan/graph?direction=down&open=x", "/workflows/fan/graph.svg?direction=down"):
        refused = await server.get(path)
        assert (refused.status_code, refused.json()["code"]) == (422, "too_large_to_draw")
