"""Runs inside runs: what ends above ends below, however deep; and notices that can never be heard stop nobody."""

from __future__ import annotations

import asyncio

import pytest

from perdure.engine import Engine
from perdure.errors import NotFound
from perdure.kernel import continuations
from perdure.kernel.address import LONGEST_ID, Address
from perdure.kernel.lifecycle import NodeState, RunState
from perdure.kernel.waits import MAX_DEPTH
from perdure.runtime.coordinator.children import explain_children
from tests.engine import tasks
from tests.engine.helpers import ask, compiled, ended, events, finish, running, start, task, until, until_true, workflow

N, R = NodeState, RunState
MID = Address("r1", "w").child_id()
INNER = Address(MID, "v").child_id()


def calls(id: str, name: str, **more):
    return {"id": id, "type": "workflow", "config": {"workflow": name}, **more}


async def until_asleep(engine: Engine, run_id: str, generation: int = 1) -> None:
    async def is_there():
        return await engine.journal.find_run(run_id) is not None

    await until_true(is_there, f"{run_id} exists")
    await until(engine, lambda state: state.generation == generation and bool(state.tally.get(N.WAITING)), run_id)


async def test_children_and_grandchildren_of_a_run_that_fails_end_with_it_and_go_on_with_it(tmp_path):
    waits = {"id": "s", "type": "wait", "config": {"signal": "go"}, "dependencies": ["done"]}
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(workflow(task("done", "echo"), waits, name="inner")))
        await engine.workflows.register(compiled(workflow(calls("v", "inner"), name="mid")))
        bad = task("bad", "fail", ["g"], args={"times": 1}, retry={"max_attempts": 1})
        await start(engine, workflow(calls("w", "mid"), task("g", "gate", args={"name": "g"}), bad))
        await until_asleep(engine, INNER)
        tasks.gate_of("g").set()
        assert (await ended(engine)).state is R.FAILED
        for run_id in (MID, INNER):
            state = await ended(engine, run_id)
            assert (state.state, state.orphaned) == (R.CANCELLED, True)
        assert not (await ask(engine, "retry")).refused
        await until_asleep(engine, INNER, generation=2)
        assert not (await ask(engine, "signal", INNER, name="go")).refused
        assert (await ended(engine)).state is R.COMPLETED
        assert len([key for key, _ in tasks.seen if key.startswith(INNER)]) == 1, "what was done is not done again"


@pytest.mark.slow
async def test_runs_nested_too_deep_fail_by_name_and_quarantine_nothing(tmp_path):
    async with running(tmp_path) as engine:
        deep = workflow(calls("w", "deep"), name="deep")
        state = await finish(engine, deep)
        assert (state.state, state.error.code) == (R.FAILED, "child_failed")
        runs = [record async for record in every_run(engine)]
        assert len(runs) == MAX_DEPTH + 1
        assert [record.run_id for record in runs if record.quarantined is not None or record.row.ended_at is None] == []
        assert max(len(record.run_id) for record in runs) <= LONGEST_ID
        errors = [(await engine.runs.state(record.run_id)).error for record in runs]
        assert [error.code for error in errors].count("limit_exceeded") == 1
        assert max(len(error.message) for error in errors) <= 1000
        (deepest,) = (
            record.run_id for record, error in zip(runs, errors, strict=True) if error.code == "limit_exceeded"
        )
        for record, error in zip(runs, errors, strict=True):
            if record.run_id != deepest:
                where = "" if Address(record.run_id, "w").child_id() == deepest else f" (in {deepest})"
                assert error.message.endswith(f"nested {MAX_DEPTH} deep, which is the most{where}"), record.run_id
        assert state.error.message.startswith("r1:w failed: limit_exceeded: w would start a child")


async def every_run(engine: Engine):
    cursor = None
    while True:
        page = await engine.journal.list_runs(limit=500, cursor=cursor)
        for record in page.items:
            yield record
        if (cursor := page.next_cursor) is None:
            return


def test_ids_of_children_are_bounded_and_stay_with_their_root():
    name, seen = "root", set()
    for _ in range(MAX_DEPTH):
        name = Address(name, "n" * 60, (1, 2), 3).child_id(1)
        assert len(name) <= LONGEST_ID
        assert name.startswith("root:")
        assert name not in seen
        seen.add(name)


@pytest.mark.parametrize("gone", ["the definition", "its form"])
async def test_a_continuation_that_can_never_begin_is_a_fact_of_its_sender_and_stops_nobody(
    tmp_path, monkeypatch, caplog, gone
):
    caplog.set_level("CRITICAL")
    monkeypatch.setattr(continuations, "LONG_JOURNAL", 5)
    wait = {"id": "s", "type": "wait", "config": {"signal": "go"}}
    loop = {"condition": "true", "loop_back_to": "s"}
    async with running(tmp_path) as engine:
        ir, _ = await engine.workflows.register(
            compiled(workflow(wait, task("x", "echo", ["s"], loop=loop), endless=True))
        )
        await start(engine, ir)
        library = engine.coordinator.library
        real = library.get

        async def get(name):
            listening = asyncio.current_task()
            if name != ir.hash or listening is None or listening.get_name() != "perdure-listener":
                return await real(name)
            raise NotFound(f"there is no definition {name}") if gone == "the definition" else RuntimeError("no form")

        monkeypatch.setattr(library, "get", get)
        await ask(engine, "signal", name="go")
        state = await until(engine, lambda state: state.continued_as is not None)
        if gone == "the definition":
            state = await until(engine, lambda state: state.error is not None)
            assert (state.state, state.error.code) == (R.COMPLETED, "continuation_failed")
            assert [event.type for event in await events(engine.journal)].count("run.undelivered") == 1
            assert await engine.journal.read_notices(None, 0, 10) == []
        else:
            assert len(await engine.journal.read_notices(None, 0, 10)) == 1, "a newer process may understand it"
        assert await engine.journal.find_run("r1~2") is None
        assert (await finish(engine, workflow(task("a", "echo")), "r2")).state is R.COMPLETED


async def test_a_parent_does_not_wait_in_silence_for_a_child_that_is_quarantined(tmp_path):
    waits = {"id": "s", "type": "wait", "config": {"signal": "go"}}
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(workflow(waits, name="mid")))
        await start(engine, workflow(calls("w", "mid")))
        await until_asleep(engine, MID)
        assert await explain_children(engine.journal, await engine.runs.state("r1")) == {}
        await engine.journal.mark_quarantined(MID, "IntegrityError: it is not as it was")
        said = await explain_children(engine.journal, await engine.runs.state("r1"))
        assert f"The child {MID} is quarantined and cannot go on (IntegrityError: it is not as it was)" in said["w"]
        assert not (await ask(engine, "cancel", force=True)).refused, "it can be given up"
