"""Templates that fail, through the real engine: the run fails cleanly, and nothing else does."""

from __future__ import annotations

import pytest

from perdure.kernel.lifecycle import RunState
from perdure.model import DefinitionError
from tests.engine.helpers import compiled, ended, finish, running, start, state_of, task, transform, workflow

R = RunState


async def test_a_template_that_cannot_be_rendered_is_a_clean_failure(tmp_path):
    for number, node in enumerate(
        (
            task("b", "echo", ["a"], args={"value": "{{ a.value.missing.deeper }}"}),
            transform("b", "{{ a.value.missing.deeper }}", ["a"]),
            transform("b", "{{ 1 / a.value }}", ["a"]),
        )
    ):
        async with running(tmp_path) as engine:
            state = await finish(engine, workflow(task("a", args={"value": 0}), node), f"r{number}")
            assert state.state is R.FAILED, node
            assert state.find("b").error.code == "template_error"
            assert state.find("b").attempt == 1


async def test_a_failure_of_a_template_can_be_handled_in_the_graph(tmp_path):
    definition = workflow(
        task("a"), task("b", "echo", ["a"], args={"value": "{{ a.x.y }}"}, on_failure={"path": ["c"]}), task("c")
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition)
        assert (state.state, state_of(state, "c")) == (R.COMPLETED, "completed")


async def test_outputs_that_cannot_be_rendered_fail_the_run(tmp_path):
    async with running(tmp_path) as engine:
        state = await finish(engine, workflow(task("a"), outputs={"x": "{{ a.nothing.there }}"}))
        assert (state.state, state.error.code) == (R.FAILED, "output_error")


@pytest.mark.parametrize("value", ["{{ inputs.n ** 200 }}", "{{ inputs.d.keys }}"])
async def test_a_transform_that_gives_no_plain_data_fails_alone(tmp_path, value):
    definition = workflow(transform("t", value))
    async with running(tmp_path) as engine:
        reply = await start(engine, definition, "odd", inputs={"d": {"a": 1}, "n": 10**6})
        state = await finish(engine, workflow(task("a")), "good")
        assert state.state is R.COMPLETED
        assert reply.refused or (await ended(engine, "odd")).state in (R.FAILED, R.COMPLETED)


async def test_a_template_that_calls_something_is_refused_before_it_is_stored(tmp_path):
    async with running(tmp_path) as engine:
        with pytest.raises(DefinitionError, match="nothing can be called"):
            await engine.workflows.register(compiled(workflow(transform("t", "{{ inputs.d.items() }}"))))
