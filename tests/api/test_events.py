"""The events of a run, page by page: from both ends, of some types or one node, with and without values."""

import pytest

from perdure.service.runs import run_events
from tests.engine.helpers import transform, workflow

ORDER = workflow(
    transform("a", {"large": "x" * 50}),
    *(transform(f"m{number}", number, ["a"]) for number in range(6)),
    transform("z", "{{ m3 }}", [f"m{number}" for number in range(6)]),
    name="order",
)


async def read(server, path, **query):
    """Every item of a list, and how many items each page had."""
    items, sizes, cursor = [], [], None
    while True:
        page = await server.ok(path, params={**query, **({} if cursor is None else {"cursor": cursor})})
        items += page["items"]
        sizes.append(len(page["items"]))
        cursor = page["next_cursor"]
        if cursor is None:
            return items, sizes
        assert sizes.count(0) < 100


@pytest.fixture
async def run(server):
    return (await server.start(ORDER, {"who": "ann"}))["run_id"]


async def test_pages_from_the_end_are_the_pages_from_the_beginning_in_reverse(server, run):
    whole = await server.ok(f"/runs/{run}/events?limit=1000")
    events = whole["items"]
    assert (whole["last_seq"], whole["next_cursor"]) == (len(events), None)
    for limit in (1, 3, 1000):
        newest, sizes = await read(server, f"/runs/{run}/events", before=2**53, limit=limit)
        assert newest == events[::-1]
        assert max(sizes) <= limit
        middle, _ = await read(server, f"/runs/{run}/events", before=len(events) - 1, after=2, limit=limit)
        assert middle == events[2:-2][::-1]
    none = await server.ok(f"/runs/{run}/events?before=1")
    assert (none["items"], none["next_cursor"], none["last_seq"]) == ([], None, len(events))


async def test_what_is_about_a_node_is_found_also_in_events_about_many(server, run, monkeypatch):
    events = (await server.ok(f"/runs/{run}/events?limit=1000"))["items"]
    about = [
        one
        for one in events
        if one.get("node") == "m3" or any(place[0] == "m3" for place in one["data"].get("places", ()))
    ]
    assert {one["type"] for one in about} == {"nodes.scheduled", "node.completed"}
    typed = [one for one in events if one["type"] in ("run.created", "node.completed")]
    monkeypatch.setattr(run_events, "LOOKED_AT", 4)
    for order, query in ((1, {}), (-1, {"before": 1000})):
        found, sizes = await read(server, f"/runs/{run}/events", node="m3", limit=2, **query)
        assert found == about[::order]
        assert 0 in sizes  # nothing in the first that were looked at, and more behind them
        assert (await read(server, f"/runs/{run}/events", node="m", **query))[0] == []
        types = ["run.created", "node.completed"]
        assert (await read(server, f"/runs/{run}/events", type=types, limit=3, **query))[0] == typed[::order]


async def test_without_outputs_values_are_left_out_and_named(server, run):
    full = (await server.ok(f"/runs/{run}/events?limit=1000"))["items"]
    bare = (await server.ok(f"/runs/{run}/events?limit=1000&outputs=false"))["items"]
    assert "xxxxx" in str(full)
    assert "xxxxx" not in str(bare)
    assert "ann" not in str(bare)
    for one, less in zip(full, bare, strict=True):
        left = less.pop("omitted", [])
        assert {**one, "data": {name: value for name, value in one["data"].items() if name not in left}} == less
    omitted = {
        one["type"]: one.get("omitted") for one in (await server.ok(f"/runs/{run}/events?outputs=false"))["items"]
    }
    assert omitted["run.created"] == ["inputs"]
    assert omitted["node.completed"] == ["output"]
    assert omitted["nodes.scheduled"] is None
