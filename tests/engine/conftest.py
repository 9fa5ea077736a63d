"""Every test here leaves nothing behind: no task, no thread, no open file, no process."""

import asyncio
import gc
import os
import threading
from collections.abc import Iterator

import pytest

from tests.engine import tasks


def descriptors() -> dict[str, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue
    return found


@pytest.fixture(autouse=True)
def _nothing_left(tmp_path) -> Iterator[None]:
    tasks.reset()
    before = set(threading.enumerate())
    yield
    tasks.reset()
    gc.collect()
    # `asyncio.to_thread` uses threads of the loop, which ends them when it is closed.
    left = [one for one in threading.enumerate() if one not in before and not one.daemon and "asyncio_" not in one.name]
    assert not left, f"threads are left: {left}"
    mine = {number: path for number, path in descriptors().items() if str(tmp_path) in path}
    assert not mine, f"files are left open: {mine}"


@pytest.fixture(autouse=True)
async def _no_task_left() -> Iterator[None]:
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)
    mine = asyncio.current_task()
    left = [task for task in asyncio.all_tasks() if task not in before and task is not mine and not task.done()]
    assert not left, f"tasks are left: {left}"
