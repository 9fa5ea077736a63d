"""Ten thousand tasks through one worker: no thread, task, file or held message is left."""

import asyncio
import gc
import os
import threading

import pytest

from tests.runtime.harness import call, soon, wait_until, working
from tests.waiting import no_more

TASKS = 10_000


def counts() -> tuple[int, int, int]:
    gc.collect()
    return threading.active_count(), len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))


async def drive(h, tasks):
    await h.publish(*tasks)
    completed = 0
    while completed < len(tasks):
        deliveries = await soon(h.transport.receive(1000))
        assert {delivery.result.kind for delivery in deliveries} == {"completed"}
        completed += len(deliveries)
        await h.transport.acknowledge([delivery.receipt for delivery in deliveries])


@pytest.mark.parametrize("name", ["add", "add_async"])
@pytest.mark.slow
async def test_ten_thousand_tasks_leave_nothing_behind(name):
    before = counts()
    tasks = [
        call(f"tests.runtime.functions:{name}", f"n{n}", args={"a": n}, timeout_seconds=60.0) for n in range(TASKS)
    ]
    async with working(concurrency=20) as h:
        await drive(h, tasks)
        await wait_until(lambda: h.worker.free_slots == 20, "every slot is free")
        assert h.worker._execution._contexts == {}
        assert h.transport._kept == {}  # type: ignore[attr-defined]
        assert h.transport._unacknowledged == {}  # type: ignore[attr-defined]
        assert h.worker._reporter.count == 0
        assert threading.active_count() <= before[0] + 21
        await soon(h.worker.drain())
    await wait_until(lambda: no_more(counts(), before), "threads, tasks and files are as they were")


@pytest.mark.slow
async def test_isolated_processes_leave_nothing_behind():
    before = counts()
    async with working(concurrency=2) as h:
        await drive(
            h, [call("tests.runtime.functions:add", f"n{n}", args={"a": n}, isolation="process") for n in range(50)]
        )
        await h.do(call("tests.runtime.functions:leave", args={"code": 1}, isolation="process"))
        await soon(h.worker.drain())
    # `asyncio.to_thread` keeps its threads until the loop closes.
    await wait_until(lambda: no_more(counts()[1:], before[1:]), "tasks and files are as they were")
