"""The functions the benchmarked workflows call."""

from __future__ import annotations

import asyncio
from pathlib import Path


async def nothing() -> int:
    return 1


def task(node: str, *dependencies: str) -> dict[str, object]:
    return {
        "id": node,
        "type": "task",
        "config": {"function": "bench.work:nothing"},
        "dependencies": list(dependencies),
    }


async def wait_for(path: str) -> int:
    """Until a file is there."""
    while not Path(path).exists():  # noqa: ASYNC110, ASYNC240  somebody in another process makes it
        await asyncio.sleep(0.1)
    return 1
