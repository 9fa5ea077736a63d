"""A second process reads and commands while the first holds the file, and takes over when it dies (PROTOCOL 26, 27)."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from perdure.kernel.lifecycle import RunState
from perdure.runtime.coordinator.requests import Request
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
    until_true,
    workflow,
)
from tests.engine.runner import Folder
from tests.processes import stop_between_writes

pytestmark = pytest.mark.slow

R = RunState


@pytest.fixture
def folder(tmp_path):
    made = Folder(tmp_path)
    made.spec["stay"] = True
    return made


def test_a_second_process_reads_and_commands_while_the_first_works(folder):
    flag = folder.path / "flag"
    folder.add(
        "r1",
        workflow(
            task("a", "wait_for_file", args={"path": str(flag)}),
            {"id": "h", "type": "human", "config": {"approvers": ["x"]}, "dependencies": ["a"]},
            {"id": "s", "type": "wait", "config": {"signal": "go"}, "dependencies": ["h"]},
            task("b", "echo", ["s"], args={"value": "{{ s }}"}),
        ),
    )
    with folder.process() as process:
        folder.say(process, "started")

        async def command() -> None:
            engine = await opened(folder.path)
            try:
                assert not await engine.hold()
                assert engine.holder.pid == process.pid
                assert not engine.holds
                assert (await ask(engine, "pause")).state == "paused"
                flag.touch()
                await until(engine, lambda state: state_of(state, "h") == "held")
                assert (await ask(engine, "resume")).state == "running"
                await until(engine, lambda state: state_of(state, "h") == "waiting")
                approval = (await engine.journal.list_approvals(state="pending")).items[0].approval_id
                assert (await ask(engine, "vote", approval=approval, by="mallory")).code == "not_an_approver"
                assert not (await ask(engine, "vote", approval=approval, by="x")).refused
                await ask(engine, "signal", name="go", payload=5)
                state = await ended(engine)
                assert output_of(state, "b")["value"] == 5
                assert (await ask(engine, "cancel")).code == "run_ended"
                assert (await ask(engine, "pause", "nobody")).code == "not_found"
                # A start is handed over too: the holder executes it.
                assert not (await start(engine, workflow(task("c"), name="second"), "r2")).refused
                assert (await ended(engine, "r2")).state is R.COMPLETED
                assert (await start(engine, workflow(task("c"), name="second"), "r2")).code == "exists"
            finally:
                await engine.close()

        asyncio.run(command())
        assert {pid for *_, pid in folder.effects()} == {process.pid}
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_a_bad_command_of_another_process_hurts_nobody(folder):
    folder.add("r1", workflow({"id": "s", "type": "wait", "config": {"signal": "go"}}))
    with folder.process() as process:
        folder.say(process, "started")

        async def command() -> None:
            engine = await opened(folder.path)
            try:
                nothing = Request(kind="start", run_id="r9", ir="sha256:nothing")
                assert (await asyncio.wait_for(engine.runs.request(nothing), 10)).refused
                bad = await engine.journal.put_command("r1", b'{"kind": "explode"')
                await until_true(lambda: engine.journal.find_answer(bad), "it is answered")
                assert (await ask(engine, "requeue", node="nothing")).refused
                assert not (await ask(engine, "signal", name="go")).refused
                assert (await ended(engine)).state is R.COMPLETED
            finally:
                await engine.close()

        asyncio.run(command())


def test_a_second_holder_is_refused_and_told_who_holds_it(folder):
    with folder.process() as first:
        folder.say(first, "ready")
        with folder.process() as second:
            assert folder.say(second, "held") == f"held {first.pid}"
            assert second.wait(30) == 3
        assert first.poll() is None


def test_a_follower_takes_over_when_the_holder_is_killed(folder):
    flag = folder.path / "flag"
    folder.add("r1", workflow(task("a", "wait_for_file", args={"path": str(flag)}), task("b", "echo", ["a"])))
    with folder.process() as process:
        folder.wait(process, folder.effects, "a runs")

        async def take_over() -> None:
            engine = await opened(folder.path)
            try:
                assert not await engine.hold()
                process.kill()
                process.wait()
                flag.touch()
                assert await engine.hold()
                state = await ended(engine)
                assert state.state is R.COMPLETED
                assert (state.find("a").attempt, state.find("a").crashes) == (2, 1)
            finally:
                await engine.close()

        os.environ["PERDURE_TEST_EFFECTS"] = str(folder.effects_file)
        try:
            asyncio.run(take_over())
        finally:
            del os.environ["PERDURE_TEST_EFFECTS"]
    pids = {pid for *_, pid in folder.effects()}
    assert pids == {process.pid, os.getpid()}


def test_a_request_is_answered_though_the_holder_dies_before_it_hears_of_it(folder):
    folder.add("r1", workflow({"id": "s", "type": "wait", "config": {"signal": "go"}}, task("b", "echo", ["s"])))
    with folder.process() as process:
        folder.say(process, "started")

        async def command() -> None:
            engine = await opened(folder.path)
            try:
                assert not await engine.hold()
                await asyncio.to_thread(stop_between_writes, process.pid, folder.path / "perdure.db")
                asking = asyncio.create_task(ask(engine, "pause"))
                await until_true(engine.journal.read_commands, "the command is there")
                process.kill()
                process.wait()
                assert (await asking).state == "paused"
                assert engine.holds
                await ask(engine, "resume")
                await ask(engine, "signal", name="go")
                assert await engine.hold(), "from asking to working"
                assert (await ended(engine)).state is R.COMPLETED
            finally:
                await engine.close()

        asyncio.run(command())


async def test_a_command_is_not_decided_twice_though_its_answer_was_lost(tmp_path):
    """The holder dies after the append and before it answers: the next one must not signal again."""
    definition = workflow({"id": "s", "type": "wait", "config": {"signal": "go"}})
    holder, follower = await opened(tmp_path), await opened(tmp_path)
    await holder.hold()
    await start(holder, definition)
    lost = asyncio.Event()
    answer = holder.journal.answer_command

    async def lose(*arguments):
        lost.set()
        await asyncio.Event().wait()

    holder.journal.answer_command = lose
    reply = await asyncio.wait_for(
        follower.runs.request(Request(kind="signal", run_id="r1", name="other", payload=1)), 10
    )
    assert not reply.refused
    await lost.wait()
    holder.journal.answer_command = answer
    await holder.close()
    await follower.hold()
    await ask(follower, "signal", name="go")
    state = await ended(follower)
    assert len(state.signals) == 1
    await follower.close()


async def test_the_holder_is_replaced_as_soon_as_it_closes(tmp_path):
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(workflow(task("a"))))
        other = await opened(tmp_path)
        assert not await other.hold()
    assert await other.hold()
    await start(other, workflow(task("a")))
    assert (await ended(other)).state is R.COMPLETED
    await other.close()
