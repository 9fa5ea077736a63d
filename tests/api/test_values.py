"""Values looked through part by part: what nodes were given and gave, items of maps, inputs and outputs of runs."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.contents import Contents
from perdure.errors import NotFound
from perdure.kernel.segments import MASKED, SEALED
from perdure.service import slices
from perdure.service.slices import Part, cut
from tests.api.test_runs import until_node, until_state
from tests.engine import tasks
from tests.engine.helpers import task, transform, until_true, workflow

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=30,
)


def pointer_of(names):
    return "".join("/" + str(name).replace("~", "~0").replace("/", "~1") for name in names)


def read(cut, names, limit):
    """The value again, from its parts, as a reader would put it together."""
    entries, text, offset = [], "", 0
    while True:
        part = cut(Part(pointer=pointer_of(names), offset=offset, limit=limit))
        if "value" in part:
            return part["value"]
        text += part.get("text", "")
        entries += part.get("entries", [])
        offset += len(part.get("entries", [])) or len(part["text"]) if part["more"] else 0
        if part["more"]:
            continue
        if part["kind"] == "string":
            assert len(text) == part["length"]
            return text
        assert len(entries) == part["length"]
        values = [one["value"] if "value" in one else read(cut, [*names, one["key"]], limit) for one in entries]
        if part["kind"] == "array":
            assert [one["key"] for one in entries] == list(range(len(entries)))
            return values
        return dict(zip((one["key"] for one in entries), values, strict=True))


@pytest.mark.slow
@given(JSON, st.integers(1, 3))
def test_a_value_is_the_sum_of_its_parts_from_memory_and_from_json(value, limit):
    data = msgspec.json.encode(value)

    def from_memory(part):
        return slices._show(slices._walk(value, part.names(), 0)[0], part)

    def from_json(part):
        return slices._cut_raw(data, part.names(), part)

    assert read(from_memory, [], limit) == value
    assert read(from_json, [], limit) == value
    for names in (["no such key"], ["0", "0", "0", "0", "0", "0", "0"], ["-"], ["01"]):
        part = Part(pointer=pointer_of(names))
        told = []
        for read_part in (from_memory, from_json):
            try:
                told.append(read_part(part))
            except NotFound as error:
                told.append(error.message)
        assert told[0] == told[1]


async def parts(server, path, **query):
    return await server.ok(path, params=query)


@pytest.mark.slow
async def test_a_large_output_is_opened_part_by_part(server, monkeypatch):
    lines = [{"n": number, "text": "ü" * 250, "big": 2**60 + number} for number in range(1500)]
    run = (await server.start(workflow(task("a", "echo", args={"value": lines})), {"who": {"x": "y" * 50_000}}))[
        "run_id"
    ]
    path = f"/runs/{run}/nodes/a/output"
    whole = await parts(server, path)
    entry = next(one for one in whole["entries"] if one["key"] == "value")
    assert (whole["kind"], entry["key"], entry["kind"], "value" in entry) == ("object", "value", "array", False)
    assert entry["size"] > 500_000
    page = await parts(server, path, pointer="/value", offset=1490, limit=5)
    assert (page["length"], page["more"], [one["key"] for one in page["entries"]]) == (
        1500,
        True,
        list(range(1490, 1495)),
    )
    one = await parts(server, path, pointer="/value/1499")
    assert {entry["key"]: entry.get("value") for entry in one["entries"]} == {
        "n": 1499,
        "text": None,
        "big": 2**60 + 1499,
    }
    text = await parts(server, path, pointer="/value/7/text", offset=100, limit=1)
    assert text == {"kind": "string", "length": 250, "text": "ü" * 100, "more": True}
    assert await parts(server, path, pointer="/value/7/big") == {
        "kind": "number",
        "length": 1,
        "value": 2**60 + 7,
        "more": False,
    }
    missing = await server.get(path, params={"pointer": "/value/1500"})
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    wrong = await server.get(path, params={"pointer": "value"})
    assert (wrong.status_code, wrong.json()["problems"][0]["path"]) == (422, "pointer")
    given_ = await parts(server, f"/runs/{run}/inputs", pointer="/who/x", limit=10)
    assert (given_["length"], len(given_["text"]), given_["more"]) == (50_000, 1000, True)
    gave = await parts(server, f"/runs/{run}/outputs", pointer="/a/value/1/n")
    assert gave["value"] == 1
    monkeypatch.setattr(slices, "READ_BYTES", 1000)
    large = await server.get(path)
    assert (large.status_code, large.json()["code"]) == (413, "too_large")


async def test_what_a_node_was_given_is_told_by_visit_item_and_attempt(server):
    flow = workflow(
        {
            **transform("again", {"turn": "{{ inputs.n }}"}),
            "loop": {"loop_back_to": "again", "condition": "loop.iteration < 3", "max_iterations": 5},
        },
        {
            "id": "each",
            "type": "map",
            "dependencies": ["again"],
            "config": {"over": "{{ [5, 6] }}", "node": task("x", args={"value": "{{ item }}"})},
        },
        {**task("bad", "boom", ["each"]), "on_failure": "park", "retry": {"max_attempts": 2, "backoff_ms": 1}},
    )
    run = (await server.start(flow, {"n": 4}, wait=0))["run_id"]

    async def parked():
        return (await server.ok(f"/dead-letters?run_id={run}"))["items"]

    await until_true(parked, "the last node is parked")
    path = f"/runs/{run}/nodes"
    given_ = await parts(server, f"{path}/again/input", visit=2)
    assert (given_["visit"], given_["scope"], given_["config"]) == (2, [2], {"value": {"turn": 4}})
    item = await parts(server, f"{path}/each/input", item=1)
    assert (item["item"], item["config"]["args"]) == (1, {"value": 6})
    assert (await parts(server, f"{path}/each/output", item=0))["kind"] == "object"
    (letter,) = (await server.ok(f"/dead-letters?run_id={run}"))["items"]
    other = {"function": "tests.engine.tasks:echo", "args": {"value": 9}}
    await server.ok(f"/dead-letters/{letter['dead_letter_id']}/requeue", {"input": other})
    await until_state(server, run, "completed")
    attempts = [
        one["attempt"] for one in (await server.ok(f"/runs/{run}/events?node=bad&type=node.scheduled"))["items"]
    ]
    configs = [(await parts(server, f"{path}/bad/input", attempt=one))["config"]["function"] for one in attempts]
    assert configs == ["tests.engine.tasks:boom"] * (len(attempts) - 1) + ["tests.engine.tasks:echo"]
    assert (await parts(server, f"{path}/bad/input"))["config"]["args"] == {"value": 9}
    for query in ({"visit": 9}, {"item": 9}, {"attempt": 99}):
        refused = await server.get(f"{path}/again/input", params=query)
        assert refused.status_code == 404, query


async def test_items_of_a_map_are_listed_by_state_and_in_pages(server):
    tasks.gates.pop("items", None)
    flow = workflow(
        {
            "id": "each",
            "type": "map",
            "config": {
                "over": "{{ inputs.of }}",
                "node": {**task("x", "fail_odd", args={"value": "{{ item }}"}), "retry": {"max_attempts": 1}},
                "tolerated_failures": 100,
            },
        },
    )
    flow["nodes"][0]["config"]["node"]["config"]["function"] = "tests.api.test_values:fail_odd"
    run = (await server.start(flow, {"of": list(range(25))}))["run_id"]
    path = f"/runs/{run}/nodes/each/items"
    found, cursor = [], None
    while True:
        page = await parts(server, path, limit=7, **({} if cursor is None else {"cursor": cursor}))
        found += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert [one["item"] for one in found] == list(range(25))
    assert {one["state"] for one in found} == {"completed", "failed"}
    assert all("output" not in one for one in found)
    failed = await parts(server, path, state="failed", limit=1000)
    assert [one["item"] for one in failed["items"]] == list(range(1, 25, 2))
    assert failed["items"][0]["error"]["message"] == "ValueError: odd"
    assert (await parts(server, path, state="running"))["items"] == []
    assert (await server.get(f"/runs/{run}/nodes/nope/items")).status_code == 404


def fail_odd(value):
    if value % 2:
        raise ValueError("odd")
    return {"value": value}


async def test_a_node_that_has_not_begun_has_nothing_yet(server):
    flow = workflow(transform("a", 1), {"id": "w", "type": "wait", "config": {"signal": "go"}, "dependencies": ["a"]})
    flow["nodes"].append(transform("b", 1, ["w"]))
    run = (await server.start(flow, wait=0))["run_id"]
    for name in ("input", "output", "items"):
        answer = await server.get(f"/runs/{run}/nodes/b/{name}", params={"at": 1} if name != "items" else {})
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert "b has not begun" in answer.json()["detail"]
    await until_node(server, run, "w", "waiting")
    waiting = await server.get(f"/runs/{run}/nodes/w/output")
    assert (waiting.status_code, "it is waiting" in waiting.json()["detail"]) == (404, True)


async def test_no_pointer_leads_into_what_is_sealed():
    value = {"card": {SEALED: "sealed text"}, "cards": [{SEALED: "sealed text"}], "who": "ann"}
    shown = await cut(Contents(None), "t", value, Part())
    assert {one["key"]: one["value"] for one in shown["entries"]} == {"card": MASKED, "cards": [MASKED], "who": "ann"}
    assert (await cut(Contents(None), "t", value, Part(pointer="/card")))["text"] == MASKED
    for pointer in (f"/card/{SEALED}", f"/cards/0/{SEALED}"):
        with pytest.raises(NotFound):
            await cut(Contents(None), "t", value, Part(pointer=pointer))


async def test_a_node_is_shown_without_its_output_by_its_size(server):
    run = await server.ok("/runs", {"definition": workflow(transform("a", {"n": [1, 2, 3]})), "wait_seconds": 30})
    whole = await server.ok(f"/runs/{run['run_id']}/nodes/a")
    bare = await server.ok(f"/runs/{run['run_id']}/nodes/a?outputs=false")
    assert whole["output"] == {"n": [1, 2, 3]}
    assert [("output" in one, one["size"]) for one in (bare, *bare["visits"])] == [(False, len('{"n":[1,2,3]}'))] * 2
    assert bare["attempts"] == whole["attempts"]


async def test_a_run_is_shown_without_its_values_where_nobody_asked_for_them(server):
    run = await server.start(workflow(transform("a", "{{ inputs.text }}")), {"text": "x" * 1000})
    path = f"/runs/{run['run_id']}"
    of_nodes = await server.ok(f"{path}?outputs=false")
    assert (of_nodes["inputs"], of_nodes["outputs"]) == ({"text": "x" * 1000}, {"a": "x" * 1000})
    assert "omitted" not in of_nodes
    for bare in (await server.ok(f"{path}?values=false"), await server.ok(f"{path}/state?at=3&values=false")):
        assert (bare["inputs"], bare["outputs"], bare["omitted"]) == (None, None, ["inputs", "outputs"])
        assert "x" * 1000 not in str(bare)
