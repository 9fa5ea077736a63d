"""An engine that has run for a while, and is closed, leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import os
import threading

import pytest

from perdure.kernel.lifecycle import RunState
from perdure.runtime.coordinator.messages import Resumed
from tests.engine import tasks
from tests.engine.conftest import descriptors
from tests.engine.helpers import ended, events, opened, start, task, until_true, workflow


@pytest.mark.slow
async def test_three_hundred_runs_leave_no_task_no_thread_no_file_and_no_run_in_memory(tmp_path):
    gc.collect()
    threads, files, running_tasks = threading.active_count(), len(descriptors()), asyncio.all_tasks()
    definition = workflow(
        task("a"),
        task("b", "echo_in_thread", ["a"]),
        task("c", "fail", ["a"], args={"times": 1}, retry={"max_attempts": 2, "backoff_ms": 1}),
        {"id": "w", "type": "wait", "config": {"seconds": 0.001}, "dependencies": ["b", "c"]},
        task("d", "echo", ["w"]),
    )
    engine = await opened(tmp_path)
    await engine.hold()
    listeners = list(engine._listeners)  # its own parts
    for first in range(0, 300, 50):
        await asyncio.gather(*(start(engine, definition, f"r{number}") for number in range(first, first + 50)))
    for number in range(300):
        state = await ended(engine, f"r{number}", 60)
        assert state.state is RunState.COMPLETED
    coordinator = engine.coordinator
    await coordinator.drained()
    assert coordinator.memory.runs == {}
    assert coordinator.memory._resting == {}
    assert coordinator._asking == set()
    assert coordinator.memory._pins == {}
    assert len(coordinator.publisher.dispatcher) == 0
    assert coordinator.publisher.dispatcher._queues == {}
    assert engine.transport._kept == {}
    assert engine.transport._unacknowledged == {}
    assert engine._listeners == listeners
    assert engine.worker.running == ()
    await engine.close()
    gc.collect()
    assert asyncio.all_tasks() == running_tasks
    await until_true(lambda: threading.active_count() <= threads, "threads that were free have ended")
    assert len(descriptors()) <= files
    assert sorted(os.listdir(tmp_path)) in (["perdure.db"], ["perdure.db", "perdure.db.lock"])
    assert len(tasks.seen) == 300 * 5


async def test_timers_are_kept_though_the_coordinator_is_never_idle(tmp_path):
    retry = {"max_attempts": 6, "backoff_ms": 5, "multiplier": 1.0, "jitter": False}
    engine = await opened(tmp_path)
    await engine.hold()
    await start(engine, workflow({"id": "w", "type": "wait", "config": {"signal": "go"}}, name="waiting"), "waiting")

    async def flood() -> None:
        while True:
            engine.coordinator.put(Resumed("waiting", None))
            await asyncio.sleep(0)

    flooding = asyncio.create_task(flood())
    try:
        await start(engine, workflow(task("a", "fail", args={"times": 5}, retry=retry), name="patient"), "patient")
        await ended(engine, "patient")
        assert [event.type for event in await events(engine.journal, "patient")].count("timer.fired") == 5
    finally:
        flooding.cancel()
        await engine.close(0.1)


async def test_a_timer_set_while_the_timekeeper_looks_is_not_missed(tmp_path):
    """The journal is asked for the next timer; before it answers, an earlier one is made durable."""
    engine = await opened(tmp_path)
    real = engine.journal.next_timer
    release, looking = asyncio.Event(), asyncio.Event()

    async def slow(partitions=None):
        found = await real(partitions)
        looking.set()
        await release.wait()
        return found

    engine.journal.next_timer = slow
    await engine.hold()
    await asyncio.wait_for(looking.wait(), 10)
    nap = {"id": "nap", "type": "wait", "config": {"seconds": 0.05}}
    await start(engine, workflow(nap))
    release.set()
    engine.journal.next_timer = real
    assert (await ended(engine)).state is RunState.COMPLETED
    await engine.close()
