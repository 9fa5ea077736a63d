"""A new run out of an old one: what came before a node is kept, or everything runs again with other inputs (rule 40)."""

from __future__ import annotations

import asyncio

import pytest

from perdure.kernel.lifecycle import RunState
from tests.engine import tasks
from tests.engine.helpers import (
    ask,
    compiled,
    crash,
    ended,
    events,
    finish,
    opened,
    output_of,
    running,
    start,
    state_of,
    task,
    workflow,
)

R = RunState
CHAIN = workflow(
    task("a", "echo", args={"value": "{{ inputs.n }}"}),
    task("b", "add", ["a"], args={"a": "{{ a.value }}", "b": 1}),
    task("c", "add", ["a", "b"], args={"a": "{{ a.value }}", "b": "{{ b.sum }}"}),
    inputs={"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}},
)


async def test_a_rerun_keeps_what_came_before_its_node(tmp_path):
    async with running(tmp_path) as engine:
        first = await finish(engine, CHAIN, inputs={"n": 5})
        assert output_of(first, "c") == {"sum": 11}
        tasks.seen.clear()
        reply = await ask(engine, "rerun", "r2", source="r1", node="b", by="ann")
        assert not reply.refused, reply
        second = await ended(engine, "r2")
        assert second.state is R.COMPLETED
        assert len(tasks.seen) == 2, "b and c, and not a"
        assert (second.origin, second.inputs) == (("r1", "b"), {"n": 5})
        assert output_of(second, "c") == {"sum": 11}
        assert [event.node for event in await events(engine.journal, "r2") if getattr(event, "adopted", False)] == ["a"]


async def test_a_rerun_replaces_the_inputs_of_its_node_only(tmp_path):
    async with running(tmp_path) as engine:
        await finish(engine, CHAIN, inputs={"n": 5})
        await ask(engine, "rerun", "r2", source="r1", node="b", inputs={"a": {"value": 100}})
        second = await ended(engine, "r2")
        assert (output_of(second, "b"), output_of(second, "c")) == ({"sum": 101}, {"sum": 106})


async def test_a_rerun_without_a_node_runs_everything_with_other_inputs(tmp_path):
    async with running(tmp_path) as engine:
        await finish(engine, CHAIN, inputs={"n": 5})
        tasks.seen.clear()
        await ask(engine, "rerun", "r2", source="r1", inputs={"n": 1})
        second = await ended(engine, "r2")
        assert (output_of(second, "c"), len(tasks.seen), second.origin) == ({"sum": 3}, 3, ("r1", ""))
        await ask(engine, "rerun", "r3", source="r1")
        assert output_of(await ended(engine, "r3"), "c") == {"sum": 11}


async def test_a_rerun_of_a_failed_run_goes_on_where_it_failed(tmp_path):
    flag = tmp_path / "there"
    flag.touch()
    broken = workflow(
        task("a", "echo", args={"value": 1}),
        task("b", "fail_while", ["a"], args={"path": str(flag)}),
        task("c", "echo", ["b"], args={"value": "{{ a.value }}"}),
    )
    async with running(tmp_path) as engine:
        assert (await finish(engine, broken)).state is R.FAILED
        flag.unlink()
        await ask(engine, "rerun", "r2", source="r1", node="b")
        second = await ended(engine, "r2")
        assert (second.state, output_of(second, "c")["value"]) == (R.COMPLETED, 1)


async def test_a_rerun_goes_by_the_definition_the_run_has_now(tmp_path):
    before = workflow(task("a", "gate", args={"name": "a"}), task("b", "echo", ["a"]))
    after = workflow(*before["nodes"], task("c", "echo", ["b"], args={"value": "patched"}))
    async with running(tmp_path) as engine:
        await start(engine, before)
        ir = await engine.workflows.keep(compiled(after))
        assert not (await ask(engine, "patch", ir=ir.hash)).refused
        tasks.gate_of("a").set()
        await ended(engine)
        await ask(engine, "rerun", "r2", source="r1", node="c")
        second = await ended(engine, "r2")
        assert output_of(second, "c")["value"] == "patched"
        assert state_of(second, "b") == "completed"


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"source": "nothing", "node": "b"}, "not_found", "there is no run nothing"),
        ({"source": "r1", "node": "x"}, "rerun_refused", "run r1 has no node 'x'; known are a, b, c"),
        (
            {"source": "r1", "node": "b", "inputs": {"c": 1, "z": 1}},
            "rerun_refused",
            "'c' is not one of them; the inputs of",
        ),
        ({"source": "r1", "node": "b", "inputs": [1]}, "invalid_inputs", "are given by node, as an object"),
        ({"source": "r1", "inputs": {"n": "many"}}, "invalid_inputs", "the inputs do not fit the workflow"),
    ],
)
async def test_a_rerun_that_cannot_be_is_refused_and_says_why(tmp_path, fields, code, message):
    async with running(tmp_path) as engine:
        await finish(engine, CHAIN, inputs={"n": 5})
        reply = await ask(engine, "rerun", "r2", **fields)
        assert reply.code == code
        assert message in reply.message
        assert await engine.journal.find_run("r2") is None


async def test_a_node_inside_a_loop_is_rerun_from_where_its_loop_begins(tmp_path):
    looped = workflow(
        task("a", "echo", args={"value": 1}),
        task("h", "echo", ["a"]),
        task(
            "x",
            "count",
            ["h"],
            args={"upto": 2},
            loop={"condition": "!output.done", "max_iterations": 5, "loop_back_to": "h"},
        ),
        task("z", "echo", ["x"], args={"value": "{{ x.at }}"}),
    )
    async with running(tmp_path) as engine:
        await finish(engine, looped)
        refused = await ask(engine, "rerun", "r2", source="r1", node="x")
        assert "inside the loop of 'x'; rerun from where that begins, 'h'" in refused.message
        tasks.seen.clear()
        await ask(engine, "rerun", "r2", source="r1", node="h")
        assert output_of(await ended(engine, "r2"), "z")["value"] == 2
        assert len(tasks.seen) == 5
        tasks.seen.clear()
        await ask(engine, "rerun", "r3", source="r1", node="z")
        assert output_of(await ended(engine, "r3"), "z")["value"] == 2
        assert len(tasks.seen) == 1


async def test_a_rerun_asked_twice_is_one_run(tmp_path):
    async with running(tmp_path) as engine:
        await finish(engine, CHAIN, inputs={"n": 5})
        replies = await asyncio.gather(*(ask(engine, "rerun", "r2", source="r1", node="b") for _ in range(2)))
        assert sorted(reply.code for reply in replies) == ["", "exists"]
        await ended(engine, "r2")


async def test_a_rerun_survives_a_crash_and_is_asked_from_a_second_process(tmp_path):
    holder, follower = await opened(tmp_path), await opened(tmp_path)
    await holder.hold()
    definition = workflow(task("a", "echo", args={"value": 1}), task("b", "gate", ["a"], args={"name": "b"}))
    tasks.gate_of("b").set()
    await finish(holder, definition)
    tasks.gates.clear()
    reply = await ask(follower, "rerun", "r2", source="r1", node="b")
    assert (reply.refused, follower.holds) == (False, False)
    await crash(holder)
    tasks.gate_of("b").set()
    assert await follower.hold()
    second = await ended(follower, "r2")
    assert (second.state, state_of(second, "a")) == (R.COMPLETED, "completed")
    await follower.close()
