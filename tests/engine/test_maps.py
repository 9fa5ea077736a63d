"""Maps through the real engine: order, limits, and lists that are none."""

from __future__ import annotations

import pytest

from perdure.kernel.lifecycle import RunState
from tests.engine import tasks
from tests.engine.helpers import finish, output_of, running, task, transform, workflow

R = RunState


@pytest.mark.slow
async def test_a_map_of_a_thousand_items_keeps_order_and_its_limit(tmp_path):
    inner = {"type": "task", "config": {"function": "tests.engine.tasks:crowd", "args": {"item": "{{ item }}"}}}
    definition = workflow(
        transform("list", "{{ inputs.list }}"),
        {
            "id": "m",
            "type": "map",
            "config": {"over": "{{ list }}", "node": inner, "max_concurrency": 7},
            "dependencies": ["list"],
        },
        task("size", "size", ["m"], args={"value": "{{ m }}"}),
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition, inputs={"list": list(range(1000))})
        assert output_of(state, "m") == [2 * n for n in range(1000)]
        assert output_of(state, "size") == {"size": 1000}
        assert 1 < tasks.crowds["most"] <= 7


@pytest.mark.slow
async def test_a_map_without_a_limit_and_one_without_items(tmp_path):
    inner = {"type": "task", "config": {"function": "tests.engine.tasks:crowd", "args": {"item": "{{ item }}"}}}
    definition = workflow({"id": "m", "type": "map", "config": {"over": "{{ inputs.list }}", "node": inner}})
    async with running(tmp_path) as engine:
        assert output_of(await finish(engine, definition, "r1", {"list": list(range(500))}), "m")[499] == 998
        assert output_of(await finish(engine, definition, "r2", {"list": []}), "m") == []


async def test_a_map_over_something_else_than_a_list_is_a_clean_failure(tmp_path):
    inner = {"type": "task", "config": {"function": "tests.engine.tasks:crowd", "args": {"item": "{{ item }}"}}}
    definition = workflow({"id": "m", "type": "map", "config": {"over": "{{ inputs.list }}", "node": inner}})
    async with running(tmp_path) as engine:
        state = await finish(engine, definition, inputs={"list": 5})
        assert state.state is R.FAILED
        assert state.error.code == "bad_config"
