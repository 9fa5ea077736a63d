"""What several attacks need."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.api.helpers import Server
from tests.engine.helpers import DEADLINE


async def until_some(server: Server, path: str, headers: dict[str, str]) -> Any:
    """The first item of a list, once there is one."""
    async with asyncio.timeout(DEADLINE):
        while True:
            found = (await server.ok(path, headers=headers))["items"]
            if found:
                return found[0]


async def until_state(server: Server, run_id: str, state: str, headers: dict[str, str]) -> Any:
    """The run, once it is in that state."""
    async with asyncio.timeout(DEADLINE):
        while True:
            run = await server.ok(f"/runs/{run_id}", headers=headers)
            if run["state"] == state:
                return run
