"""What runs is seen, from this process and from another one, and not a moment longer than its process lives."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from perdure.kernel.readings.explain import explain
from perdure.kernel.readings.run_view import run_view
from perdure.runtime.coordinator.work_reports import list_seen
from tests.engine.helpers import ask, ended, opened, running, start, task, until_true, workflow
from tests.engine.runner import Folder


@pytest.fixture
def folder(tmp_path):
    made = Folder(tmp_path)
    made.spec["stay"] = True
    return made


async def seen_of(engine, run_id="r1"):
    state = await engine.runs.state(run_id)
    return state, await engine.work_reports.of(state)


async def until_running(engine, node="a", run_id="r1"):
    async def look():
        state, seen = await seen_of(engine, run_id)
        view = run_view(state, seen=seen)["nodes"][node]
        return view if view["state"] == "running" else None

    return await until_true(look, f"{node} is running")


@pytest.mark.slow
def test_a_second_process_sees_what_the_first_runs_and_nothing_once_that_is_killed(folder):
    flag = folder.path / "flag"
    folder.add("r1", workflow(task("a", "wait_for_file", args={"path": str(flag)}), task("b", "echo", ["a"])))
    with folder.process() as process:
        folder.say(process, "started")

        async def look() -> None:
            engine = await opened(folder.path)
            try:
                assert not await engine.hold()
                view = await until_running(engine)
                assert view["pid"] == process.pid
                assert view["worker"].startswith("local-")
                state, seen = await seen_of(engine)
                assert state.find("a").state == "queued"  # no event was written for it
                assert f"a is running on worker {view['worker']} (process {process.pid} on" in explain(state, "a", seen)
                assert list_seen(state, seen)[0]["since"] == view["started_at"]
                assert run_view(state, seen=seen)["started_at"] == view["started_at"]
                assert await engine.work_reports.find_starts(["r1", "r2"]) == {"r1": view["started_at"]}
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                state, seen = await seen_of(engine)
                assert not seen.working
                assert explain(state, "a", seen) == (
                    "a is queued in 'default' (attempt 1); no worker is known to run it yet."
                )
            finally:
                await engine.close()

        asyncio.run(look())


async def test_a_node_is_running_while_its_handler_is_and_no_event_says_so(tmp_path):
    flag = tmp_path / "flag"
    async with running(tmp_path) as engine:
        await start(engine, workflow(task("a", "wait_for_file", args={"path": str(flag)})))
        view = await until_running(engine)
        assert view["attempt"] == 1
        assert [one.type for one in await engine.journal.read_events("r1", 0)] == ["run.created", "node.scheduled"]
        assert [one["node"] for one in await until_listed(engine)] == ["a"]
        flag.touch()
        state = await ended(engine)
        assert state.started_at == view["started_at"]
        assert not (await engine.work_reports.of(state)).working
        record = await engine.journal.get_run("r1")
        assert record.row.started_at == view["started_at"]


async def until_listed(engine):
    return await until_true(lambda: engine.work_reports.list_tasks("r1"), "the task is listed")


async def test_a_second_attempt_is_running_as_the_second(tmp_path):
    flag = tmp_path / "flag"
    async with running(tmp_path) as engine:
        node = task("a", "wait_for_file", args={"path": str(flag)})
        await start(engine, workflow(node | {"timeout_seconds": 0.2, "retry": {"max_attempts": 2, "backoff_ms": 1}}))
        await until_running(engine)

        async def is_second():
            state, seen = await seen_of(engine)
            return state.find("a").attempt == 2 and "attempt 2" in explain(state, "a", seen)

        await until_true(is_second, "the second attempt runs")
        await ask(engine, "cancel")
