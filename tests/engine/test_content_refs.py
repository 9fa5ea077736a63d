"""What a definition keeps elsewhere: config_ref, schema_ref and code_ref; and definitions that are large themselves."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from perdure.blobs import ref_of
from perdure.kernel.lifecycle import RunState
from perdure.kernel.segments import BlobRef
from perdure.model import DefinitionError
from tests.engine import tasks
from tests.engine.helpers import (
    compiled,
    crash,
    ended,
    finish,
    opened,
    output_of,
    running,
    start,
    state_of,
    task,
    transform,
    until_true,
    workflow,
)
from tests.engine.test_blob_faults import Away, injured
from tests.engine.test_blobs import BIG, big

R = RunState


async def put(engine: Any, value: Any) -> str:
    data = value.encode() if isinstance(value, str) else json.dumps(value).encode()
    return await engine.blobs.put("default", data)


@pytest.mark.parametrize("form", ["full", "bare", "typed"])
async def test_a_config_may_be_kept_as_a_blob_and_its_templates_are_templates(tmp_path, form):
    async with running(tmp_path) as engine:
        ref = await put(
            engine, {"function": "tests.engine.tasks:echo", "args": {"value": "{{ first.value }} of {{ inputs.n }}"}}
        )
        written: Any = {"full": ref, "bare": ref.removeprefix("cas://"), "typed": {"type_url": "x", "cas_ref": ref}}[
            form
        ]
        definition = workflow(
            task("first", args={"value": "one"}),
            {"id": "a", "type": "task", "config_ref": written, "dependencies": ["first"]},
        )
        state = await finish(engine, definition, inputs={"n": 3})
        assert output_of(state, "a")["value"] == "one of 3"


async def test_a_transform_may_have_its_config_elsewhere_and_read_large_values(tmp_path):
    async with running(tmp_path) as engine:
        ref = await put(engine, {"value": {"size": "{{ a.size }}", "all": "{{ a }}"}})
        definition = workflow(
            big("a"),
            {"id": "t", "type": "transform", "config_ref": ref, "dependencies": ["a"]},
            big("m", "measure", ["t"], args={"value": "{{ t.all }}"}),
        )
        state = await finish(engine, definition)
        assert output_of(state, "m")["length"] == BIG
        assert (await engine.contents.resolve("default", BlobRef(state.find("t").output_ref)))["size"] == BIG


async def test_schemas_and_code_may_be_kept_as_blobs(tmp_path):
    async with running(tmp_path) as engine:
        schema = await put(engine, {"type": "object", "required": ["value"]})
        code = await put(engine, "def evaluate(output, context):\n    return output['value'] == 'one'\n")
        branch = {
            "rules": [
                {
                    "condition": {"type": "schema_validation", "schema_ref": schema, "invert": True},
                    "next_nodes": ["no"],
                },
                {"condition": {"type": "python_sandbox", "code_ref": code}, "next_nodes": ["yes"]},
            ],
            "default": ["no"],
        }
        definition = workflow(task("a", args={"value": "one"}, branch=branch), task("yes"), task("no"))
        state = await finish(engine, definition)
        assert (state_of(state, "yes"), state_of(state, "no")) == ("completed", "skipped")


async def test_a_python_condition_runs_while_other_runs_go_on(tmp_path):
    slow = "def evaluate(output, context):\n    n = 0\n    while n < 300000:\n        n = n + 1\n    return True\n"
    branch = {
        "rules": [{"condition": {"type": "python_sandbox", "code": slow, "timeout_ms": 30000}, "next_nodes": ["yes"]}],
        "default": [],
    }
    async with running(tmp_path) as engine:
        await start(engine, workflow(task("a", branch=branch), task("yes")))
        other = await finish(engine, workflow(task("x"), transform("y", 1, ["x"])), "r2")
        assert other.state is R.COMPLETED
        assert state_of(await ended(engine), "yes") == "completed"


async def test_what_is_not_there_is_a_problem_of_the_definition_with_its_place(tmp_path):
    missing = ref_of(b"nobody put this")
    schema = {"type": "schema_validation", "schema_ref": missing}
    condition = {"type": "composite", "operator": "NOT", "conditions": [schema]}
    definition = workflow(
        {"id": "a", "type": "task", "config_ref": missing},
        task("b", needs=["a"], branch={"rules": [{"condition": condition, "next_nodes": ["c"]}], "default": []}),
        task("c"),
    )
    async with running(tmp_path) as engine:
        with pytest.raises(DefinitionError) as caught:
            await engine.workflows.register(compiled(definition))
        places = {problem.path: problem.code for problem in caught.value.problems}
        assert places == {
            "nodes.a.config_ref": "missing_blob",
            "nodes.b.branch.rules[0].condition.conditions[0].schema_ref": "missing_blob",
        }
        assert "perdure blobs put" in str(caught.value)


async def test_a_config_that_vanished_later_fails_the_attempt(tmp_path):
    from tests.engine.test_blob_faults import destroy

    async with running(tmp_path) as engine:
        config = {"function": "tests.engine.tasks:echo", "args": {}}
        ref = await engine.blobs.put("default", json.dumps(config, separators=(",", ":")).encode())
        ir, _ = await engine.workflows.register(compiled(workflow({"id": "a", "type": "task", "config_ref": ref})))
        await destroy(engine, config)
        await start(engine, ir)
        state = await ended(engine)
        assert (state.state, state.error.code) == (R.FAILED, "blob_missing")


async def test_a_large_definition_is_kept_as_a_blob_and_read_by_the_next_process(tmp_path):
    definition = workflow(*(task(f"n{number}", args={"value": f"{'v' * 500}"}) for number in range(100)))
    engine = await opened(tmp_path)
    ir, version = await engine.workflows.register(compiled(definition))
    assert (await engine.workflows.register(compiled(definition)))[1] == version
    assert len((await engine.journal.get_definition(ir.hash)).body) < 100
    assert len(await engine.blobs.list_blobs("perdure:definitions")) == 2
    await engine.close()
    async with running(tmp_path) as engine:
        await start(engine, ir)
        assert (await ended(engine)).state is R.COMPLETED
        assert len(tasks.seen) == 100


async def test_when_of_the_first_node_may_read_the_inputs(tmp_path):
    definition = workflow(
        task("a", when="inputs.n > 3"),
        task("b", needs=["a"]),
        task("c", when="run.id == 'r1'"),
        outputs={"n": "{{ inputs.n }}"},
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition, inputs={"n": 5})
        assert [state_of(state, name) for name in "abc"] == ["completed"] * 3
        state = await finish(engine, definition, "r2", inputs={"n": 1})
        assert [state_of(state, name) for name in "abc"] == ["skipped"] * 3
        assert (state.state, state.outputs) == (R.COMPLETED, {"n": 1})


LARGE = workflow(
    task("g", "gate", args={"name": "g"}),
    *(task(f"n{number}", needs=["g"], args={"value": "v" * 1000}) for number in range(50)),
    name="large",
)


@pytest.mark.slow
async def test_runs_with_small_definitions_go_on_while_that_of_another_cannot_be_fetched(tmp_path, caplog):
    engine = await opened(tmp_path)
    await engine.hold()
    await start(engine, LARGE)
    await until_true(lambda: len(tasks.seen) == 1, "it runs")
    await crash(engine)
    tasks.gate_of("g").set()
    engine = await opened(tmp_path)
    plan = Away("get")
    store = injured(engine, plan)
    await engine.hold()
    try:
        await until_true(lambda: store.calls["get"] >= 3, "the definition is asked for")
        other = await finish(engine, workflow(task("x"), task("y", needs=["x"])), "r2")
        assert other.state is R.COMPLETED
        assert not (await engine.journal.get_run("r1")).row.ended_at
        plan.back = True
        assert (await ended(engine)).state is R.COMPLETED
    finally:
        await engine.close(0.5)


async def test_a_child_of_a_large_workflow_is_started_when_that_was_fetched(tmp_path):
    parent = workflow({"id": "call", "type": "workflow", "config": {"workflow": "large"}}, name="parent")
    tasks.gate_of("g").set()
    engine = await opened(tmp_path)
    await engine.workflows.register(compiled(LARGE))
    await engine.close()
    async with running(tmp_path) as engine:
        state = await finish(engine, parent)
        assert state.state is R.COMPLETED
    async with running(tmp_path) as engine:
        for blob in await engine.blobs.list_blobs("perdure:definitions"):
            await engine.blobs.discard("perdure:definitions", blob.key)
            await engine.blobs.delete_discarded("perdure:definitions", blob.key, 10**12)
        state = await finish(engine, {**parent, "name": "again"}, "r2")
        assert (state.state, state.error.code) == (R.FAILED, "child_failed")
        assert "blob_missing" in state.error.message


async def test_a_run_whose_definition_is_gone_is_quarantined_and_no_other(tmp_path, caplog):
    caplog.set_level(logging.CRITICAL)
    engine = await opened(tmp_path)
    await engine.hold()
    await start(engine, LARGE)
    await until_true(lambda: len(tasks.seen) == 1, "it runs")
    await crash(engine)
    engine = await opened(tmp_path)
    for blob in await engine.blobs.list_blobs("perdure:definitions"):
        await engine.blobs.discard("perdure:definitions", blob.key)
        await engine.blobs.delete_discarded("perdure:definitions", blob.key, 10**12)
    await engine.hold()
    try:

        async def is_quarantined() -> bool:
            return (await engine.journal.get_run("r1")).quarantined is not None

        await until_true(is_quarantined, "it is marked")
        assert "there is no blob" in (await engine.journal.get_run("r1")).quarantined
        assert (await finish(engine, workflow(task("x")), "r2")).state is R.COMPLETED
    finally:
        await engine.close(0.5)
