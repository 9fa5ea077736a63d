"""`workflow` in the real engine: children by name and version, with their inputs and outputs."""

import pytest

from perdure.model import DefinitionError
from tests.engine.helpers import compiled, finish, output_of, running, transform, workflow


def parent(**config):
    return workflow({"id": "child", "type": "workflow", "config": config}, name="parent")


def child(value, name="child", **more):
    return workflow(transform("x", value), name=name, outputs={"got": "{{ x }}"}, **more)


async def test_the_outputs_of_the_child_are_the_output_of_the_node(tmp_path):
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(child("{{ inputs.n }}")))
        definition = parent(workflow="child", inputs={"n": "{{ inputs.n }}"})
        state = await finish(engine, definition, inputs={"n": [1, {"a": None}]})
    assert output_of(state, "child") == {"got": [1, {"a": None}]}


async def test_a_version_can_be_named_and_the_last_one_is_meant_without(tmp_path):
    async with running(tmp_path) as engine:
        for value in ("first", "second"):
            await engine.workflows.register(compiled(child(value)))
        for number, (name, expected) in enumerate([("child@1", "first"), ("child@2", "second"), ("child", "second")]):
            state = await finish(engine, parent(workflow=name), run_id=f"r{number}")
            assert output_of(state, "child") == {"got": expected}


async def test_the_name_may_be_computed(tmp_path):
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(child(1)))
        state = await finish(engine, parent(workflow="{{ inputs.name }}"), inputs={"name": "child"})
        assert output_of(state, "child") == {"got": 1}
        for number, name in enumerate(["no such name", 7, ""]):
            failed = await finish(engine, parent(workflow="{{ inputs.name }}"), f"bad{number}", {"name": name})
            assert failed.error.code == "bad_config"


@pytest.mark.parametrize("name", ["nobody", "child@9", "child@latest-of-none"])
async def test_a_child_that_is_not_there_is_named_in_the_error(tmp_path, name):
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(child(1)))
        state = await finish(engine, parent(workflow=name))
    assert state.error.code == "child_failed"
    assert name in state.error.message


async def test_inputs_that_do_not_fit_the_child_fail_the_node(tmp_path):
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(child(1, inputs=schema)))
        state = await finish(engine, parent(workflow="child", inputs={"n": "x"}))
    assert state.state == "failed"
    assert "n" in state.error.message


async def test_children_may_have_children(tmp_path):
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(child("deep", name="level3")))
        for level in (2, 1):
            inner = {"id": "c", "type": "workflow", "config": {"workflow": f"level{level + 1}"}}
            await engine.workflows.register(
                compiled(workflow(inner, name=f"level{level}", outputs={"got": "{{ c.got }}"}))
            )
        state = await finish(engine, parent(workflow="level1"))
    assert output_of(state, "child") == {"got": "deep"}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "has no 'workflow'"),
        ({"workflow": "a b"}, "name of a workflow"),
        ({"workflow": "x", "inputs": [1]}, "'inputs' must be an object"),
        ({"workflow": "x", "input": {}}, "did you mean 'inputs'?"),
    ],
)
async def test_what_cannot_work_is_refused_before_it_runs(tmp_path, config, words):
    async with running(tmp_path) as engine:
        with pytest.raises(DefinitionError) as caught:
            await engine.workflows.register(compiled(parent(**config)))
    assert words in caught.value.problems[0].message
