"""Which nodes run: joins, branches and conditions through the real engine."""

from __future__ import annotations

from perdure.kernel.lifecycle import RunState
from tests.engine import tasks
from tests.engine.helpers import finish, running, state_of, task, until_true, workflow

R = RunState


async def test_a_diamond_joins_what_both_sides_gave(tmp_path):
    definition = workflow(
        task("a", args={"value": "{{ inputs.x }}"}),
        task("b", "add", ["a"], args={"a": "{{ a.value }}", "b": 1}),
        task("c", "add", ["a"], args={"a": "{{ a.value }}", "b": 2}),
        task("d", "add", ["b", "c"], args={"a": "{{ b.sum }}", "b": "{{ c.sum }}"}),
        outputs={"total": "{{ d.sum }}"},
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition, inputs={"x": 10})
        assert state.state is R.COMPLETED
        assert state.outputs == {"total": 23}
        assert len(tasks.seen) == 4
        await until_true(lambda: not engine.coordinator.memory.runs, "no run is in memory")


async def test_a_branch_takes_one_side_and_skips_the_other(tmp_path):
    rules = [{"condition": "output.value > 5", "next_nodes": ["big"]}]
    definition = workflow(
        task(
            "a", args={"value": "{{ inputs.x }}"}, branch={"type": "conditional", "rules": rules, "default": ["small"]}
        ),
        task("big", "echo"),
        task("small", "echo"),
        task("end", "echo", ["big", "small"]),
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition, "r1", {"x": 7})
        assert (state_of(state, "big"), state_of(state, "small")) == ("completed", "skipped")
        state = await finish(engine, definition, "r2", {"x": 3})
        assert (state_of(state, "big"), state_of(state, "small")) == ("skipped", "completed")
        assert state_of(state, "end") == "completed"


async def test_when_false_skips_the_node_and_its_output_is_null(tmp_path):
    definition = workflow(
        task("a"),
        task("b", "echo", ["a"], when="inputs.wanted"),
        outputs={"a": "{{ a.node }}", "b": "{{ b.value }}"},
    )
    async with running(tmp_path) as engine:
        state = await finish(engine, definition, inputs={"wanted": False})
        assert state.outputs == {"a": "a", "b": None}
        assert state_of(state, "b") == "skipped"
