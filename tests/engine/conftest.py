"""Every test here leaves nothing behind: no task, no thread, no open file, no process."""

import asyncio
import gc
import os
import threading
from collections.abc import AsyncIterator, Iterator

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
    left = [thread for thread in threading.enumerate() if thread not in before and not thread.daemon]
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


@pytest.fixture(autouse=True)
async def _loop_ended(_nothing_left) -> AsyncIterator[None]:
    """As `asyncio.run` ends it: what `to_thread` began is waited for, and its threads end before threads are counted."""
    yield
    await asyncio.get_running_loop().shutdown_default_executor()
