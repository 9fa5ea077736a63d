"""A task that is too large to be sent fails its own run, and nothing else."""

from __future__ import annotations

import msgspec
import pytest

from perdure.transport import Task
from perdure.transports.redis import sent_tasks
from tests.attack.marks import attack
from tests.distributed.helpers import Deployment
from tests.engine.helpers import ended, events, finish, start, task, workflow

pytestmark = pytest.mark.slow


@attack("X28", "values that are small one by one, and together more than the shared Redis takes in one message")
async def test_a_task_that_is_too_large_to_be_sent_fails_its_run_alone(deployment: Deployment, monkeypatch):
    monkeypatch.setattr(sent_tasks, "LARGEST_TASK", 100_000)
    await deployment.coordinator()
    await deployment.worker()
    client = await deployment.open()
    names = [f"n{number}" for number in range(5)]
    made = {"function": "tests.engine.large:make", "args": {"size": 30_000}}
    wide = workflow(*({**task(name), "config": made} for name in names), task("join", "echo", names))
    await start(client, wide, "large")
    assert (await finish(client, workflow(task("a")), "small")).state.value == "completed"
    state = await ended(client, "large")
    assert (state.state.value, state.error.code) == ("failed", "limit_exceeded")
    assert "join has 15" in state.error.message


def test_a_call_has_a_bounded_number_of_tasks_and_of_bytes(monkeypatch):
    monkeypatch.setattr(sent_tasks, "BATCH", 3)
    monkeypatch.setattr(sent_tasks, "BATCH_BYTES", 10)
    one = Task(run_id="r", node="a", type="task", idempotency_key="k")
    sent = [(number, "", one, b"x" * size, "") for number, size in enumerate((1, 2, 3, 8, 30, 1, 9, 1))]
    calls = [[number for number, *_ in some] for some in sent_tasks._in_calls(sent)]
    assert calls == [[0, 1, 2], [3], [4], [5], [6, 7]]
    assert list(sent_tasks._in_calls([])) == []


@attack("X28", "thousands of small steps, all of which the next attempt is sent")
async def test_what_a_retry_finds_of_its_steps_is_no_large_message(deployment: Deployment, monkeypatch):
    monkeypatch.setattr(sent_tasks, "LARGEST_TASK", 10_000)
    await deployment.coordinator()
    await deployment.worker()
    client = await deployment.open()
    config = {"function": "tests.engine.large:keep_many", "args": {"count": 60, "size": 30_000}}
    node = {**task("a"), "config": config, "retry": {"max_attempts": 2, "backoff_ms": 1}}
    state = await finish(client, workflow(node))
    assert (state.state.value, state.find("a").output["again"]) == ("completed", 0)
    assert 60 * 30_000 < state.kept < 61 * 30_000
    assert state.find("a").kept < 300_000


@attack("S20", "a worker that stores much and says that it is little, or names what it never stored")
@pytest.mark.parametrize("missing", [False, True])
async def test_how_large_a_blob_is_is_asked_of_the_store(deployment: Deployment, missing):
    await deployment.coordinator()
    worker = await deployment.worker()
    client = await deployment.open()
    report, told = worker.transport.report, []

    async def lie(results):
        changed = []
        for one in results:
            if one.output_ref is not None:
                told.append(one.size)
                ref = "cas://sha256:" + "0" * 64 if missing else one.output_ref
                one = msgspec.structs.replace(one, size=3, output_ref=ref)
            changed.append(one)
        await report(changed)

    worker.transport.report = lie  # type: ignore[method-assign]
    node = {**task("a"), "config": {"function": "tests.engine.large:make", "args": {"size": 100_000}}}
    state = await finish(client, workflow({**node, "retry": {"max_attempts": 1}}))
    if missing:
        assert (state.state.value, state.error.code) == ("failed", "bad_output")
        return
    [completed] = [one for one in await events(client.journal) if one.type == "node.completed"]
    assert completed.size == told[0] > 100_000
