"""Each test has a server of its own and leaves nothing behind: no task of it, and where sockets are used no thread or file."""

import asyncio

import pytest

from tests.api.helpers import serving
from tests.engine import tasks
from tests.engine.conftest import _no_task_left

__all__ = ["_no_task_left"]


@pytest.fixture(autouse=True)
async def _executor_ended():
    """Some things are waited for in threads of the loop, which end with it."""
    tasks.reset()
    yield
    tasks.reset()
    await asyncio.get_running_loop().shutdown_default_executor()


@pytest.fixture
async def server(tmp_path):
    async with serving(tmp_path) as made:
        yield made
