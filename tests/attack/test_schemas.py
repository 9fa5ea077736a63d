"""JSON Schemas take long to be compiled, and no other thread has a turn meanwhile: none is too heavy, and a heavy one is compiled beside
the loop, wherever a run needs it (S03, S04)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from perdure.budget import Budget, OverBudget
from perdure.expressions import json_schema
from perdure.expressions.checks import check_parts
from perdure.expressions.json_schema import SchemaInvalid, compile_schema, find_mistake
from perdure.expressions.schema_cost import LIGHT, MOST_WEIGHT, is_light
from perdure.nodes.given_inputs import find_trigger_problems
from perdure.runtime.called import check_called
from tests.api.helpers import bearer, serving
from tests.attack.helpers import until_some
from tests.attack.marks import attack
from tests.attack.watchdog import taking_at_most, watching, watching_calls
from tests.engine.helpers import compiled, until_true


def named(count: int, one: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {f"p{n}": one(n) for n in range(count)}}


BOMBS = {
    "values": named(80_000, lambda n: {}),
    "a list": {"prefixItems": [{} for _ in range(300_000)]},
    "alternatives": {"anyOf": [{"const": n} for n in range(50_000)]},
    "numbers": {"enum": [*range(130_000)]},
    "patterns": named(20_000, lambda n: {"pattern": f"^a{n}+$"}),
    "patterns of letters": named(500, lambda n: {"pattern": "\\p{L}+" + str(n)}),
    "names": {"patternProperties": {f"(a{n}|b){{0,200}}": {} for n in range(500)}},
}
ALLOWED = {
    "values": named(MOST_WEIGHT // 2 - 2, lambda n: {}),
    "types": named(MOST_WEIGHT // 2 - 2, lambda n: {"type": "string"} if n % 2 else True),
    "a list": {"prefixItems": [{} for _ in range(MOST_WEIGHT - 10)]},
    "alternatives": {"anyOf": [{"const": n} for n in range(MOST_WEIGHT // 2 - 10)]},
    "references": {"$defs": {"a": {"type": "string"}}, **named(12_000, lambda n: {"$ref": "#/$defs/a"})},
    "patterns": named(3_000, lambda n: {"pattern": f"^a{n}+$"}),
    "patterns of letters": named(120, lambda n: {"pattern": "\\p{L}+" + str(n)}),
}


@pytest.mark.slow
@attack("S03", "a schema of hundreds of thousands of parts, in a definition of less than a megabyte")
@pytest.mark.parametrize("name", BOMBS)
def test_a_schema_of_too_many_parts_is_refused_before_it_is_compiled(name):
    """The library took 100 to 450 ms for it in one call, and all threads waited: also those that have nothing to do with it."""
    with watching_calls(), taking_at_most(1.0):
        assert "too many parts" in (find_mistake(BOMBS[name]) or "")


@pytest.mark.slow
@attack("S03", "a schema of as many parts as it may have")
@pytest.mark.parametrize("name", ALLOWED)
def test_the_heaviest_schema_that_is_taken_holds_up_nobody(name):
    schema = ALLOWED[name]
    compile_schema(schema)
    with watching_calls() as dog:  # all else is done in Python, step by step
        json_schema._make_validator(schema)
    assert "validator_for" in dog.what


def test_what_is_light_is_known_without_looking_at_all_of_it():
    assert is_light({"type": "object", "properties": {"a": {"type": "string", "description": "x" * 100_000}}})
    assert not is_light(named(LIGHT, lambda n: {}))
    assert not is_light({"enum": [0] * 10_000_000})
    assert not is_light(named(20, lambda n: {"pattern": "\\p{L}{0,9}" * 5}))
    assert not is_light({"patternProperties": {"\\p{L}{0,9}" * 50: {}}})


# -- what multiplies while a definition is checked ---------------------------------------------------------------------

TRIVIAL = {"id": "a", "type": "transform", "config": {"value": 1}}
NESTED = {"$ref": "#/$defs/n", "$defs": {"n": {"allOf": [{"properties": {"a": {"$ref": "#/$defs/n"}}}] * 2}}}


def deep(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@attack("S03", "thousands of inputs with defaults beside thousands of definitions")
def test_defaults_are_checked_by_one_schema(tmp_path):
    """Each was checked by a schema of its own that had all definitions: four minutes of a thread for a megabyte."""
    schema = {"$defs": {f"d{n}": {"type": "string"} for n in range(3_000)}}
    schema |= named(3_000, lambda n: {"default": n, "type": "string"})
    ir = compiled({"name": "w", "nodes": [TRIVIAL], "inputs": schema}).ir
    with taking_at_most(1.0):
        problems = check_parts(ir, Budget())
    assert any("the default of input" in one.message for one in problems)


@attack("S03", "a thousand triggers whose inputs are each costly to check")
def test_the_inputs_of_all_triggers_share_the_budget_of_the_request():
    trigger = {"schedule": {"every": "1h"}, "inputs": deep(16)}
    flow = {"name": "w", "nodes": [TRIVIAL], "inputs": NESTED}
    flow["triggers"] = [{"name": f"t{n}", **trigger} for n in range(200)]
    with taking_at_most(1.0), pytest.raises(OverBudget):
        find_trigger_problems(compiled(flow), 0.0, Budget())


@attack("S03", "thousands of nodes that start a workflow whose inputs are costly to check")
async def test_the_inputs_of_all_children_share_the_budget_of_the_request():
    child = compiled({"name": "child", "nodes": [TRIVIAL], "inputs": NESTED}).ir
    calls = [
        {"id": f"c{n}", "type": "workflow", "config": {"workflow": "child", "inputs": deep(16)}} for n in range(200)
    ]
    parent = compiled({"name": "parent", "nodes": calls}).ir

    async def find(*named: Any) -> Any:
        return child

    with pytest.raises(OverBudget):
        await check_called(parent, "acme", find, {}, Budget())


# -- where runs need them ----------------------------------------------------------------------------------------------


def heavy(kind: str = "string") -> dict[str, Any]:
    return named(9_000, lambda n: {"type": kind, "default": "x"})


WAIT = {"id": "w", "type": "wait", "config": {"signal": "go"}}


def after(**more: Any) -> dict[str, Any]:
    return {"id": "a", "type": "transform", "config": {"value": {"p1": "y"}}, "dependencies": ["w"], **more}


def flows() -> dict[str, dict[str, Any]]:
    condition = {"type": "schema_validation", "schema": heavy()}
    routed = {"rules": [{"condition": condition, "next_nodes": ["yes"]}], "default": ["no"]}
    ends = [
        {"id": name, "type": "transform", "config": {"value": name}, "dependencies": ["a"]} for name in ("yes", "no")
    ]
    return {
        "output_schema": {"name": "f", "nodes": [WAIT, after(output_schema=heavy())]},
        "a condition": {"name": "f", "nodes": [WAIT, after(branch=routed), *ends]},
        "a child": {"name": "f", "nodes": [WAIT, after(type="workflow", config={"workflow": "child"})]},
    }


async def _is_completed(server: Any, run_id: str) -> bool:
    row = (await server.engine.journal.find_run(run_id)).row
    assert row.state in ("running", "completed"), row
    return bool(row.state == "completed")


@pytest.mark.slow
@attack("S04", "a schema that is compiled again after a restart, for the output of a node, a condition or a child")
@pytest.mark.parametrize("name", ["output_schema", "a condition", "a child"])
async def test_a_heavy_schema_is_compiled_beside_the_loop_wherever_a_run_needs_it(tmp_path, name):
    """Coordinators compiled what they had not at hand on the loop: half a second, and three for some."""
    async with serving(tmp_path) as server:
        await server.ok("/workflows", {"name": "child", "nodes": [TRIVIAL], "inputs": heavy()})
        run = await server.start(flows()[name], wait=0)
        json_schema._compile.clear()  # as in a process that has just begun
        with watching():
            await server.ok(f"/runs/{run['run_id']}/signal", {"name": "go"})
            await until_true(partial(_is_completed, server, run["run_id"]), "the run is done")
        if name == "a condition":
            nodes = (await server.ok(f"/runs/{run['run_id']}"))["nodes"]
            assert (nodes["yes"]["state"], nodes["no"]["state"]) == ("completed", "skipped")


@pytest.mark.slow
@attack("S04", "an output that does not fit a heavy schema")
async def test_what_does_not_fit_a_heavy_schema_fails_all_the_same(tmp_path):
    nodes = [{**after(output_schema=heavy("integer")), "dependencies": [], "retry": 1}]
    async with serving(tmp_path) as server:
        run = await server.start({"name": "f", "nodes": nodes})
        assert (run["state"], run["error"]["code"]) == ("failed", "output_schema")


@pytest.mark.slow
@attack("S04", "a form that takes long to compile, in an approval that is asked for and decided")
async def test_the_form_of_an_approval_is_compiled_beside_the_loop(tmp_path):
    ask = {"id": "ask", "type": "human", "config": {"form": "{{ inputs.form }}", "approvers": ["local"]}}
    async with serving(tmp_path) as server:
        with watching():
            run = await server.start({"name": "f", "nodes": [ask]}, {"form": heavy()}, wait=0)
            found = await until_some(server, f"/approvals?run_id={run['run_id']}", {})
        json_schema._compile.clear()
        with watching():
            path = f"/approvals/{found['approval_id']}/decide"
            wrong = await server.post(path, {"decision": "approve", "data": {"p1": 1}, "approver": "local"})
            assert wrong.status_code == 422, wrong.text
            await server.ok(path, {"decision": "approve", "data": {"p1": "y"}, "approver": "local"})
        await until_true(partial(_is_completed, server, run["run_id"]), "the run is done")


@pytest.mark.slow
@attack("S05", "a run that goes on as a new one, whose inputs have thousands of defaults")
async def test_the_inputs_of_a_run_that_goes_on_are_filled_in_beside_the_loop(tmp_path):
    schema = heavy()
    schema["properties"] |= {"page": {"type": "integer"}, "last": {"type": "integer"}}
    args = {"page": "{{ inputs.page }}", "last": "{{ inputs.last }}"}
    loop = {"condition": "output.again", "loop_back_to": "pause", "endless": True}
    config = {"function": "tests.engine.going_on:turn", "args": args}
    turn: dict[str, Any] = {"id": "turn", "type": "task", "config": config}
    turn |= {"dependencies": ["pause"], "loop": loop, "retry": 1}
    pause = {"id": "pause", "type": "wait", "config": {"signal": "go"}}
    flow = {"name": "f", "nodes": [pause, turn], "inputs": schema, "outputs": {"page": "{{ turn.page }}"}}
    async with serving(tmp_path) as server:
        run = await server.start(flow, {"page": 1, "last": 2}, wait=0)
        json_schema._compile.clear()
        with watching():
            await server.ok(f"/runs/{run['run_id']}/signal", {"name": "go"})
            next_id = f"{run['run_id']}~2"

            async def goes_on() -> bool:
                return await server.engine.journal.find_run(next_id) is not None

            await until_true(goes_on, "the run goes on")
        await server.ok(f"/runs/{next_id}/signal", {"name": "go"})
        await until_true(partial(_is_completed, server, next_id), "the last one is done")
        inputs = await server.engine.runs.state(next_id)
        assert inputs.outputs == {"page": 2}


@pytest.mark.slow
@attack("S05", "a trigger whose workflow has thousands of defaults, fired again and again")
async def test_the_inputs_of_what_a_trigger_starts_are_filled_in_beside_the_loop(tmp_path):
    trigger = {"name": "t", "workflow": "child", "event": {"name": "x"}, "inputs": {"p1": "{{ item.payload }}"}}
    count = 20
    async with serving(tmp_path) as server:
        await server.ok("/workflows", {"name": "child", "nodes": [TRIVIAL], "inputs": heavy()})
        await server.ok("/triggers", trigger)
        json_schema._compile.clear()
        with watching():
            for number in range(count):
                await server.ok("/events", {"name": "x", "payload": f"v{number}"})

            async def are_done() -> bool:
                return (await server.ok("/runs/counts?workflow=child&state=completed"))["total"] == count

            await until_true(are_done, "all runs are done", pause=0.2)


@attack("S03", "a schema of hundreds of thousands of parts, validated by a viewer")
async def test_a_viewer_is_told_of_it(tmp_path):
    async with serving(tmp_path, tokens=True) as server:
        flow = {"name": "w", "nodes": [TRIVIAL], "inputs": named(40_000, lambda n: {})}
        with watching():
            answer = await server.post("/workflows/validate", flow, headers=bearer("eve", "viewer"))
        assert "too many parts" in answer.text, answer.text[:500]


def test_a_schema_that_is_no_schema_is_told_of_wherever_it_is_compiled():
    wrong = {**heavy(), "type": "nothing"}
    with pytest.raises(json_schema.NeedsSchema) as needed:
        json_schema.check(wrong, {}, at_hand={"x": 1})
    found = json_schema.compile_text(needed.value.text)
    with pytest.raises(SchemaInvalid, match="no usable JSON Schema"):
        json_schema.check(wrong, {}, at_hand={needed.value.key: found})
    assert json_schema.check({"type": "object"}, {}, at_hand={"x": 1}) == []
