"""Child workflows through the real engine: their outputs, their failures, and what a parent does to them."""

from __future__ import annotations

from perdure.kernel.state import RunState
from tests.engine import tasks
from tests.engine.helpers import (
    ask,
    compiled,
    ended,
    finish,
    output_of,
    running,
    start,
    state_of,
    task,
    until,
    until_true,
    workflow,
)

R = RunState
CHILD = workflow(
    task("inner", "add", args={"a": "{{ inputs.n }}", "b": 1}), name="child", outputs={"n": "{{ inner.sum }}"}
)


def parent_of(name: str = "child", **more: object) -> dict[str, object]:
    node = {"id": "call", "type": "workflow", "config": {"workflow": name, "inputs": {"n": "{{ inputs.n }}"}}, **more}
    return workflow(node, task("after", "echo", ["call"], args={"value": "{{ call }}"}), name="parent")


async def register(engine, definition):

    await engine.workflows.register(compiled(definition))


async def test_a_child_workflow_gives_its_outputs_to_its_parent(tmp_path):
    async with running(tmp_path) as engine:
        await register(engine, CHILD)
        state = await finish(engine, parent_of(), inputs={"n": 41})
        assert output_of(state, "call") == {"n": 42}
        child = state.find("call").child
        record = await engine.journal.get_run(child)
        assert (record.row.state, record.row.parent) == ("completed", "r1")
        await ended(engine, child)
        await until_true(lambda: not engine.coordinator.memory.runs, "no run is in memory")
        assert await engine.journal.read_notices() == []


async def test_a_child_that_is_not_registered_fails_its_parent(tmp_path):
    async with running(tmp_path) as engine:
        state = await finish(engine, parent_of("nobody"), inputs={"n": 1})
        assert state.state is R.FAILED
        assert state.error.code == "child_failed"
        assert "workflow_not_found" in state.error.message
        assert "perdure workflows push FILE" in state.error.message


async def test_retrying_a_parent_starts_the_child_that_could_not_be_started(tmp_path):
    """It never was, so its first life is the second one its parent asks for."""
    async with running(tmp_path) as engine:
        state = await finish(engine, parent_of(), inputs={"n": 41})
        assert "workflow_not_found" in state.error.message
        await register(engine, CHILD)
        assert not (await ask(engine, "retry")).refused
        state = await until(engine, lambda state: state.terminal and state.generation == 2)
        assert (state.state, output_of(state, "call")) == (R.COMPLETED, {"n": 42})


async def test_retrying_a_parent_retries_its_failed_child(tmp_path):
    flag = tmp_path / "flag"
    flag.touch()
    child = workflow(task("first"), task("second", "fail_while", ["first"], args={"path": str(flag)}), name="child")
    async with running(tmp_path) as engine:
        await register(engine, child)
        state = await finish(engine, parent_of(), inputs={"n": 1})
        assert (state.state, state.error.code) == (R.FAILED, "child_failed")
        flag.unlink()
        assert not (await ask(engine, "retry")).refused
        state = await until(engine, lambda state: state.terminal and state.generation == 2)
        assert state.state is R.COMPLETED
        child_state = await ended(engine, state.find("call").child)
        assert (child_state.state, child_state.generation) == (R.COMPLETED, 2)
        first = [key for key, _ in tasks.seen if "first" in key]
        assert len(first) == 1, "what had completed in the child ran again"


async def test_a_node_that_retries_its_child_in_the_same_run(tmp_path):
    flag = tmp_path / "flag"
    flag.touch()
    child = workflow(task("only", "fail_while", args={"path": str(flag)}), name="child")
    definition = parent_of(retry={"max_attempts": 2, "backoff_ms": 300, "jitter": False})
    async with running(tmp_path) as engine:
        await register(engine, child)
        await start(engine, definition, inputs={"n": 1})
        await until(engine, lambda state: state_of(state, "call") == "retrying")
        flag.unlink()
        state = await ended(engine)
        assert state.state is R.COMPLETED
        assert (await engine.runs.state(state.find("call").child)).generation == 2


async def test_cancelling_a_parent_cancels_its_child(tmp_path):
    child = workflow(task("only", "gate", args={"name": "child"}), name="child")
    async with running(tmp_path) as engine:
        await register(engine, child)
        await start(engine, parent_of(), inputs={"n": 1})
        await until(engine, lambda state: state_of(state, "call") == "waiting")
        await until_true(lambda: tasks.seen, "it runs")
        await ask(engine, "cancel")
        state = await ended(engine)
        assert state.state is R.CANCELLED
        assert (await ended(engine, state.find("call").child)).state is R.CANCELLED
        assert tasks.cancelled == ["only"]
