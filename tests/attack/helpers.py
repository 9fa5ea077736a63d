"""What several attacks need."""

from __future__ import annotations

from typing import Any

from tests.api.helpers import Server
from tests.waiting import until_true


async def until_some(server: Server, path: str, headers: dict[str, str]) -> Any:
    """The first item of a list, once there is one."""

    async def first() -> Any:
        return next(iter((await server.ok(path, headers=headers))["items"]), None)

    return await until_true(first, f"something in {path}")


async def until_state(server: Server, run_id: str, state: str, headers: dict[str, str]) -> Any:
    """The run, once it is in that state."""

    async def there() -> Any:
        run = await server.ok(f"/runs/{run_id}", headers=headers)
        lost = state == "completed" and run["state"] in {"failed", "cancelled"}
        assert not lost, (
            f"run {run_id} is {run['state']} and will not complete by itself: {run['error']}, {run['nodes']}"
        )
        return run if run["state"] == state else None

    return await until_true(there, f"run {run_id} is {state}")
