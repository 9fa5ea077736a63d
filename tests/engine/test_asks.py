"""Handlers that ask, through the real engine: they wait without a slot and are entered again with the answers."""

from __future__ import annotations

import asyncio
import signal

import msgspec
import pytest

from perdure.kernel.readings.explain import explain
from perdure.runtime.coordinator.asked_for import asked_for
from perdure.transport import Result
from tests.engine import tasks
from tests.engine.helpers import (
    ask,
    compiled,
    ended,
    opened,
    output_of,
    running,
    start,
    state_of,
    task,
    until,
    workflow,
)
from tests.engine.runner import Folder

CHILD = workflow(
    task("inner", "add", args={"a": "{{ inputs.n }}", "b": 1}), name="child", outputs={"n": "{{ inner.sum }}"}
)


@pytest.mark.parametrize("function", ["asks_for_all", "asks_for_all_in_a_thread"])
async def test_everything_is_asked_for_at_once_and_the_answers_come_back(tmp_path, function):
    definition = workflow(task("a", function, args={"nap": 0.01}), task("b", "echo", ["a"]))
    async with running(tmp_path, concurrency=1) as engine:
        await engine.workflows.register(compiled(CHILD))
        await start(engine, definition)
        state = await until(engine, lambda state: state_of(state, "a") == "waiting" and not state.timers)
        approval = state.find("a").asks["ok"].approval
        assert (await engine.journal.get_approval(approval)).state == "pending"
        await ask(engine, "signal", name="payment", payload={"sum": 7})
        await ask(engine, "vote", approval=approval, decision="approve", by="ann", comments="fine")
        state = await ended(engine)
        assert output_of(state, "a") == {
            "attempt": 1,
            "ok": {"decision": "approve", "decided_by": "ann", "comments": "fine", "data": None},
            "paid": {"payload": {"sum": 7}, "timed_out": False},
            "nap": {},
            "sub": {"state": "completed", "output": {"n": 42}, "error": None},
        }
        assert state.state == "completed"
        record = await engine.journal.get_run(state.find("a").asks["sub"].child)
        assert (record.row.state, record.row.parent) == ("completed", "r1")


async def test_a_child_that_cannot_start_is_an_answer(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, workflow(task("a", "asks_for_child", args={"name": "nobody"})))
        state = await ended(engine)
        answer = output_of(state, "a")["sub"]
        assert (answer["state"], answer["error"]["code"]) == ("failed", "workflow_not_found")


async def test_a_large_answer_is_given_whole(tmp_path):
    large = workflow(task("inner", "large", args={"size": 200_000}), name="child", outputs={"text": "{{ inner.text }}"})
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(large))
        await start(engine, workflow(task("a", "asks_for_child", args={"name": "child", "counts": True})))
        state = await ended(engine)
        assert output_of(state, "a") == {"size": 200_000}


async def test_what_waits_for_answers_survives_a_restart(tmp_path):
    definition = workflow(task("a", "asks_for_signal"))
    async with running(tmp_path) as engine:
        await start(engine, definition)
        await until(engine, lambda state: state_of(state, "a") == "waiting")
    async with running(tmp_path) as engine:
        await ask(engine, "signal", name="payment", payload=5)
        state = await ended(engine)
        assert output_of(state, "a") == {"paid": 5, "attempt": 1}
    assert [name for name, _ in tasks.seen] == ["r1/a/do"] * 2


async def test_a_cancel_stops_the_child_and_the_approval(tmp_path):
    slow = workflow({"id": "w", "type": "wait", "config": {"signal": "never"}}, name="child")
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(slow))
        await start(engine, workflow(task("a", "asks_for_all", args={"nap": 3600})))
        state = await until(engine, lambda state: state_of(state, "a") == "waiting")
        child, approval = state.find("a").asks["sub"].child, state.find("a").asks["ok"].approval
        await until(engine, lambda state: state_of(state, "w") == "waiting", child)
        await ask(engine, "cancel")
        await ended(engine)
        assert (await engine.journal.get_run(child)).row.state == "cancelled"
        assert (await engine.journal.get_approval(approval)).state == "decided"


async def test_what_another_language_asks_wrongly_fails_its_attempt(tmp_path):
    about = {"at": 1.0, "address": Result(run_id="r", node="a", kind="suspended").address}
    bad = [
        [{"name": "a b", "kind": "sleep"}],
        [{"name": "a", "kind": "letter"}],
        [{"name": "a", "kind": "approval", "approvers": ["ann", "ann"]}],
        [{"name": "a", "kind": "approval", "approvers": ["ann"], "quorum": 2}],
        [{"name": "a", "kind": "approval", "form": {"type": 7}}],
        [{"name": "a", "kind": "approval", "approvers": ["\u202e"]}],
        [{"name": "a", "kind": "child", "workflow": "x\0"}],
        [{"name": "a", "kind": "sleep", "seconds": -1}],
    ]
    for asks in bad:
        result = Result(run_id="r", node="a", kind="suspended", asks=tuple(asks))
        command = asked_for(msgspec.json.decode(msgspec.json.encode(result), type=Result), about)
        assert command.error.code == "bad_ask", asks


@pytest.mark.slow
def test_a_process_that_is_killed_while_its_handler_waits_is_missed_by_nothing(tmp_path):
    folder = Folder(tmp_path)
    folder.add("r1", workflow(task("a", "asks_for_signal")))
    with folder.process() as process:
        folder.say(process, "ready")
        folder.wait(process, lambda: bool(folder.effects()), "the handler was called")
        asyncio.run(_until_it_waits(tmp_path))
        process.kill()
        assert process.wait(30) == -signal.SIGKILL
    asyncio.run(_go_on(tmp_path))
    assert len(folder.effects()) == 1


async def _until_it_waits(path):
    engine = await opened(path)
    try:
        await until(engine, lambda state: state_of(state, "a") == "waiting")
    finally:
        await engine.close(0.5)


async def _go_on(path):
    async with running(path) as engine:
        assert "the signal 'payment'" in explain(await engine.runs.state("r1"), "a")
        await ask(engine, "signal", name="payment", payload=5)
        state = await ended(engine)
        assert output_of(state, "a") == {"paid": 5, "attempt": 1}
        assert (state.find("a").attempt, state.find("a").crashes) == (2, 0)


async def test_a_step_that_may_happen_once_is_not_done_again_by_itself(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, workflow(task("a", "pays_once", retry={"max_attempts": 3, "backoff_ms": 0})))
        state = await until(engine, lambda state: state_of(state, "a") == "parked")
        assert (state.find("a").error.code, state.find("a").begun_steps.keys()) == ("error", {"pay"})
        assert len(tasks.seen) == 1
        await ask(engine, "requeue", node="a", by="ann")
        state = await ended(engine)
        assert (output_of(state, "a"), len(tasks.seen)) == ("paid", 2)
        assert state.find("a").begun_steps is None
