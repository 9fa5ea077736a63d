"""Child workflows through the real engine: their outputs, their failures, and what a parent does to them."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.decide import decide
from perdure.kernel.lifecycle import RunState
from perdure.kernel.state import State
from perdure.runtime.coordinator.continuations import read_stop
from perdure.runtime.coordinator.loaded import Loaded
from tests.engine import tasks
from tests.engine.helpers import (
    ask,
    check,
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
from tests.kernel.rules.graphs import child as begin_child
from tests.kernel.rules.graphs import effects, node
from tests.kernel.rules.graphs import start as begin_run

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


WRONG = {"id": "wrong", "type": "transform", "config": {"value": "{{ inputs.nothing.at.all }}"}}
"""A node that fails in the append that makes it ready."""


async def test_a_child_that_is_stopped_in_the_append_that_starts_it_never_begins(tmp_path):
    call = {"id": "call", "type": "workflow", "config": {"workflow": "child", "inputs": {"n": 1}}}
    async with running(tmp_path) as engine:
        await register(engine, CHILD)
        state = await finish(engine, workflow(call, WRONG, name="parent"), inputs={})
        assert (state.state, state_of(state, "call")) == (R.FAILED, "failed")
        await engine.coordinator.settled()
        assert await engine.journal.find_run(state.find("call").child) is None
        assert "child.ended" not in [event.type for event in await check(engine.journal)], "nothing has ended"


async def test_a_child_that_is_stopped_in_the_append_that_retries_it_is_not_retried(tmp_path):
    """Nor does its parent wait for it: what never began cannot end."""
    call = {"id": "call", "type": "workflow", "config": {"workflow": "child"}}
    wrong = {**WRONG, "dependencies": ["late"]}
    parent = workflow(call, task("late", "gate", args={"name": "late"}), wrong, name="parent")
    async with running(tmp_path) as engine:
        await register(engine, workflow(task("only", "fail", retry={"max_attempts": 1}), name="child"))
        await start(engine, parent, inputs={})
        await until(engine, lambda state: state.state is R.FAILING)
        tasks.gate_of("late").set()
        first = await ended(engine)
        assert state_of(first, "late") == "completed"
        assert not (await ask(engine, "retry")).refused
        state = await until(engine, lambda state: state.terminal and state.generation == 2)
        assert (state.state, state.failed_node) == (R.FAILED, "wrong")
        await engine.coordinator.settled()
        child = await engine.runs.state(state.find("call").child)
        assert (child.state, child.generation) == (R.FAILED, 1)
        assert "timer.fired" not in [event.type for event in await check(engine.journal)], "it waited for the grace"


def test_who_ends_without_children_leaves_the_stop_of_each_with_the_end():
    """A parked node keeps its child as long as the run goes on; the race that was lost has stopped one, which has not ended."""
    call = {"type": "workflow", "config": {"workflow": "child"}}
    won = node("won", "lost", "fast", join={"at_least": 1, "cancel_rest": True})
    parked = {"id": "parked", **call, "total_timeout_seconds": 5, "on_failure": "park"}
    run = begin_run({"id": "lost", **call}, node("fast"), won, parked, node("work"))
    names = {begin_child(run, "lost"), begin_child(run, "parked")}
    run.complete("fast")
    run.begin("work")
    run.pass_time(6)
    assert (run.state_of("lost"), run.state_of("parked")) == ("cancelled", "parked")
    loaded = Loaded(run.state, 16)
    loaded.adopt(run.tell(c.Cancel))
    assert loaded.notices == [], "whoever takes the run over stops them, as long as it goes on"
    loaded.adopt(run.tell(c.Cancel, force=True))
    assert run.state.terminal
    assert {name for name, _ in loaded.notices} == names
    stop = read_stop(loaded.notices[0][1])
    assert stop is not None
    child = begin_run(node("only"))
    assert isinstance(decide(child.state, stop.command(child.state, child.now)), c.Ruling)
    child.fail("only")
    child.tell(c.Retry)
    later = decide(child.state, stop.command(child.state, child.now))
    assert isinstance(later, c.Ruling)
    assert later.events == (), "a later generation was wanted since"


async def test_a_stop_calls_off_a_start_that_is_not_decided_yet(tmp_path):
    parent = begin_run({"id": "call", "type": "workflow", "config": {"workflow": "child"}})
    name = begin_child(parent, "call", inputs={"n": 1})
    (started,) = effects(parent, fx.StartChild)
    parent.tell(c.Cancel)
    (stopped,) = effects(parent, fx.StopChild)
    async with running(tmp_path) as engine:
        await register(engine, {**CHILD, "name": "inner"})
        said: list[Any] = []
        children = engine.coordinator.children
        children._put = said.append
        loaded = Loaded(parent.state, 1)
        for effect in (started, stopped):  # each in a batch of its own, and the start is set aside
            children.put(loaded, effect)
            await children.act()
        start_asked, end_asked = said
        assert (start_asked.run_id, end_asked.run_id) == (name, "run")
        assert isinstance(decide(State(), start_asked.make(State())), c.Refused)
        parent.do(msgspec.structs.replace(end_asked.make(parent.state), at=parent.now))
        assert parent.status == "cancelled"
        children.put(loaded, started)  # wanted again: the stop of before does not count
        await children.act()
        assert isinstance(said[-1].make(State()), c.Start)
