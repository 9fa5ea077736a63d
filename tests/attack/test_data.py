"""Data that costs more than it weighs: numbers that take long to read, defaults that multiply (S03, S04)."""

import json
from typing import Any

import pytest

from perdure.budget import Budget
from perdure.cli.terminal.output import moment
from perdure.expressions.json_schema import SchemaInvalid
from perdure.expressions.run_inputs import MAX_ADDED, apply_defaults, fill_in
from perdure.model.extremes import MOST, has_many, value_has_many
from perdure.nodes.http import read_body
from perdure.outcomes import Failure
from perdure.runtime.worker.outputs import encode_output
from tests.api.helpers import bearer, serving
from tests.attack.marks import attack
from tests.attack.watchdog import taking_at_most, watching
from tests.engine.helpers import DEADLINE

ONE = {"name": "w", "nodes": [{"id": "a", "type": "transform", "config": {"value": 1}}]}
EXTREMES = {
    "large": "1e300",
    "signed": "-9E+303",
    "small": "5e-324",
    "long": "1.7976931348623157e308",
    "with zeros": "1e0000300",
}


@pytest.mark.slow
@attack("S03", "a megabyte of numbers, each of which takes as long as hundreds")
@pytest.mark.parametrize("name", EXTREMES)
async def test_numbers_that_take_long_to_read_hold_up_nobody(tmp_path, name):
    number = EXTREMES[name]
    many = f"[{','.join([number] * 40_000)}]"
    async with serving(tmp_path, tokens=True) as server:
        headers = {**bearer("ann", "author"), "Content-Type": "application/json"}
        with watching():
            body = json.dumps({"definition": ONE, "inputs": {"a": "here"}}).replace('"here"', many)
            answer = await server.client.post("/api/v1/runs", content=body.encode(), headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid_json"), answer.text
            flow = f"name: w\nnodes: [{{id: a, type: transform, config: {{value: {many}}}}}]"
            headers["Content-Type"] = "application/yaml"
            answer = await server.client.post("/api/v1/workflows", content=flow.encode(), headers=headers)
            assert answer.status_code in (400, 415, 422), answer.text


def test_some_of_them_are_fine_and_texts_that_look_so_too():
    some = json.dumps([1e300] * MOST).encode()
    assert not has_many(some)
    assert has_many(json.dumps([1e300] * (MOST + 1)).encode())
    assert not has_many(json.dumps(["0e300 1e-299"] * 5_000 + ['"1e300']).encode())
    assert not has_many(json.dumps([1e279, 6.02e23, 1e-270] * 5_000).encode())
    assert value_has_many({"a": [[1e300] * (MOST + 1)]})
    assert not value_has_many([0.0, 1.5e10, float(10**20)] * 5_000)


@pytest.mark.slow
@attack("S03", "a few of them in each of many values")
async def test_many_values_with_a_few_of_them_hold_up_nobody(tmp_path):
    def node(id, value, *needs):
        return {"id": id, "type": "transform", "config": {"value": value}, "dependencies": list(needs)}

    wide = {"name": "w", "nodes": [node("a", "{{ inputs.a }}"), *(node(f"b{n}", "{{ a }}", "a") for n in range(900))]}
    async with serving(tmp_path) as server:
        with watching():
            run = await server.start(wide, {"a": [1e300] * MOST})
        assert run["state"] == "completed"
        with watching():
            assert (await server.ok(f"/runs/{run['run_id']}"))["state"] == "completed"
        with watching():
            assert len((await server.ok(f"/runs/{run['run_id']}/events?limit=1000"))["items"]) > 500
        more = {"name": "w", "nodes": [node("a", ["{{ inputs.a }}"] * 300)]}
        run = await server.start(more, {"a": [1e300] * MOST})
        assert (run["state"], run["error"]["code"]) == ("failed", "bad_output")


@attack("S03", "a few of them in each item of a map")
async def test_the_items_of_a_map_have_a_few_of_them_all_together(tmp_path):
    item = {"type": "transform", "config": {"value": "{{ inputs.a }}"}}
    flow = {"name": "w", "nodes": [{"id": "m", "type": "map", "config": {"over": "{{ inputs.x }}", "node": item}}]}
    async with serving(tmp_path) as server:
        run = await server.start(flow, {"a": [1e300] * MOST, "x": [0, 1]})
        assert (run["state"], run["error"]["code"]) == ("failed", "bad_output")
        run = await server.start(flow, {"a": [1e300] * (MOST // 2), "x": [0, 1]})
        assert run["state"] == "completed"


@attack("S03", "a blob of them as a config")
async def test_a_blob_of_them_is_no_config(tmp_path):
    async with serving(tmp_path) as server:
        data = ('{"value":[' + ",".join(["1e300"] * 40_000) + "]}").encode()
        headers = {"Content-Type": "application/octet-stream"}
        ref = (await server.client.post("/api/v1/blobs", content=data, headers=headers)).json()["ref"]
        node = {"id": "a", "type": "transform", "config_ref": ref.removeprefix("cas://")}
        with watching():
            answer = await server.post("/workflows", {"name": "w", "nodes": [node]})
        assert answer.status_code == 422, answer.text


@attack("S20", "an output, or an answer of a server, of numbers that take long to read")
def test_neither_an_output_nor_an_answer_has_many_of_them():
    with pytest.raises(Failure, match="take long to read"):
        encode_output({"a": [1e300] * 40_000})

    class Answer:
        body = json.dumps([1e300] * 40_000).encode()

        class url:  # noqa: N801
            shown = "http://example.com/"

        def header(self, name):
            return "application/json"

    with taking_at_most(0.3), pytest.raises(Failure, match="take long to read"):
        read_body(Answer(), "auto")  # type: ignore[arg-type]


@attack("S04", "a default that stands for every element")
def test_defaults_have_a_size_all_together():
    schema = {"properties": {"a": {"items": {"properties": {"x": {"default": "y" * 50_000}}}}}}
    few = MAX_ADDED // 50_002
    assert len(apply_defaults(schema, {"a": [{}] * few})["a"]) == few
    with pytest.raises(SchemaInvalid, match="would add more than"):
        apply_defaults(schema, {"a": [{}] * (few + 1)})


@attack("S04", "defaults that are looked for by two ways at every step")
def test_looking_for_defaults_does_not_double():
    twice = [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/n"}]
    schema = {"$ref": "#/$defs/n", "$defs": {"n": {"allOf": twice, "properties": {"x": {"default": 1}}}}}
    with taking_at_most(0.5), pytest.raises(SchemaInvalid, match="too costly"):
        apply_defaults(schema, {"a": 1})


async def test_a_start_that_defaults_would_blow_up_is_refused(tmp_path):
    flow = {**ONE, "inputs": {"properties": {"a": {"items": {"properties": {"x": {"default": "y" * 50_000}}}}}}}
    async with serving(tmp_path) as server:
        with watching():
            body = {"definition": flow, "inputs": {"a": [{}] * 20_000}}
            answer = await server.post("/runs", body)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_schema"), answer.text


@attack("S27", "an imported run of a time that nobody can show")
@pytest.mark.parametrize("at", [1e300, -1.0, 1e15])
async def test_a_file_says_no_time_that_a_calendar_has_not(tmp_path, at):
    async with serving(tmp_path) as server:
        run = await server.start(ONE)
        for place in ("at", "deadline_at"):
            file = await server.ok(f"/runs/{run['run_id']}/export")
            first = file["events"][0]
            (first if place == "at" else first["data"])[place] = at
            answer = await server.post("/runs/import", file)
            assert answer.status_code == 422, (place, answer.text)
            assert "not a valid time" in answer.text


def test_a_time_that_is_stored_and_none_hides_nothing_else():
    assert moment(1e300).startswith("9999-12-31")
    assert moment(-5.0).startswith("1970-01-01")


def _everywhere(count):
    """A schema that is looked at eighteen times at each of so many values, which are small in a body."""
    schema: Any = {"properties": {"x": {"items": {"allOf": [{"properties": {}}] * 18}}}}
    return schema, {"x": [0] * count}


@pytest.mark.slow
@attack("S04", "inputs whose defaults are looked for at every one of 50,000 values")
async def test_inputs_are_filled_in_and_checked_beside_the_loop(tmp_path):
    schema, inputs = _everywhere(50_000)
    child = {"name": "c", "inputs": schema, "nodes": [{"id": "a", "type": "transform", "config": {"value": 1}}]}
    call = {"id": "p", "type": "workflow", "config": {"workflow": "c", "inputs": {"x": "{{ inputs.x }}"}}}
    calls = {"id": "p", "type": "workflow", "config": {"workflow": "c", "inputs": inputs}}
    async with serving(tmp_path) as server:
        await server.ok("/workflows", child)
        with watching():
            run = await server.ok("/runs", {"workflow": "c", "inputs": inputs, "wait_seconds": DEADLINE})
        assert run["state"] == "completed"
        with watching():
            run = await server.start({"name": "w", "nodes": [call]}, inputs)
        assert run["state"] == "completed"
        with watching():
            assert (await server.ok("/workflows/validate", {"name": "w", "nodes": [calls]}))["valid"]


def test_filling_in_and_checking_spend_from_one_budget():
    schema, inputs = _everywhere(100)
    whole = Budget(1_000_000)
    assert fill_in(schema, inputs, whole) == (inputs, [])
    spent = 1_000_000 - whole.steps
    looking = Budget(1_000_000)
    apply_defaults(schema, inputs, looking)
    assert spent > 1_000_000 - looking.steps > 100
    with pytest.raises(SchemaInvalid, match="too costly"):
        fill_in(schema, inputs, Budget(spent - 1))
    assert fill_in(schema, inputs, Budget(spent))[1] == []
