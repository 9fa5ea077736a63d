"""Short ways to make messages, and to wait for them but not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from perdure.transport import Result, Task, Transport, WorkerBeat

T = TypeVar("T")

SOON = 60.0


def task(node: str = "a", **fields: Any) -> Task:
    return Task(**{"run_id": "r1", "node": node, "type": "task", "idempotency_key": f"r1/{node}"} | fields)


def result(of: Task | str = "a", kind: str = "completed", **fields: Any) -> Result:
    of = task(of) if isinstance(of, str) else of
    return Result(run_id=of.run_id, node=of.node, attempt=of.attempt, kind=kind, **fields)  # type: ignore[arg-type]


def beat(worker: str = "w1", *running: str, **fields: Any) -> WorkerBeat:
    return WorkerBeat(worker, running, **fields)


async def soon(awaitable: Awaitable[T]) -> T:
    return await asyncio.wait_for(awaitable, SOON)


async def claim(transport: Transport, limit: int = 100, worker: str = "w1", queues: tuple[str, ...] = ("default",)):
    return [found.node for found in await soon(transport.claim(worker, queues, limit))]


async def receive(transport: Transport, limit: int = 100) -> list[str]:
    return [delivery.result.node for delivery in await soon(transport.receive(limit))]


async def settle() -> None:
    """Let everything that can go on go on."""
    for _ in range(20):
        await asyncio.sleep(0)


async def is_waiting(future: asyncio.Future[Any]) -> bool:
    await settle()
    return not future.done()
